//! Errors of tensor files: their exit codes, and the library's hints in options of this program.

use carton_tensor::weights::{BlendError, DescriptionError};
use carton_tensor::ztensor::{SparseError, ZTensorError};
use carton_tensor_files::{MergeError, Remedy, TensorFilesError};

use crate::failure::{Exit, Failure};
use crate::hints;

impl From<TensorFilesError> for Failure {
    fn from(error: TensorFilesError) -> Self {
        use TensorFilesError::{NotForFormat, NotOne, OneFits, OutputIsSource, Pattern, UnknownOutput};
        let hint = hint(&error);
        let failure = match error {
            TensorFilesError::Carton(error) => Self::from(error),
            NotForFormat { option, path, format } => {
                let option = match option {
                    "groups" => "quantized-groups".to_owned(),
                    option => option.replace('_', "-"),
                };
                Self::usage(format!("--{option} is for .zt files: `{}` would be {format}", path.display()))
            }
            error @ (UnknownOutput { .. }
            | OutputIsSource { .. }
            | Pattern(_)
            | OneFits { .. }
            | NotOne { .. }
            | TensorFilesError::Slice(_)) => Self::usage(error),
            TensorFilesError::Merge(MergeError::NoOption { option, method }) => {
                Self::usage(format!("--{option} is no option of --method {method}"))
            }
            TensorFilesError::Merge(MergeError::NeedsOption { option, method }) => {
                Self::usage(format!("--method {method} needs --{option}"))
            }
            error @ TensorFilesError::Merge(
                MergeError::Method(_) | MergeError::OneModel { .. } | MergeError::Scales { .. },
            ) => Self::usage(error),
            // A file that cannot be used is no wrong argument.
            error @ TensorFilesError::Description(DescriptionError::Io { .. } | DescriptionError::File { .. }) => {
                Self::new(error)
            }
            error @ (TensorFilesError::NoDescription { .. } | TensorFilesError::Description(_)) => Self::usage(error),
            error => Self::with_exit(Exit::from(error.kind()), error),
        };
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

fn hint(error: &TensorFilesError) -> Option<String> {
    let text = |text: &str| Some(text.to_owned());
    match error {
        TensorFilesError::NoSuchTensor { present, .. } if !present.is_empty() => {
            error.hint().map(|hint| format!("{hint}; `carton tensor ls` shows all"))
        }
        TensorFilesError::NothingToQuantize { schemes, .. } if schemes.is_empty() => {
            text("`carton tensor ls` shows their dtypes, and --only chooses by name")
        }
        TensorFilesError::ScaleNameTaken { .. } => error.hint().map(|hint| format!("{hint} with --only")),
        TensorFilesError::TwoOfOneName { .. } => text("rename one of them with --rename, or leave it out with --exclude"),
        TensorFilesError::OtherMetadata { key, .. } => {
            Some(format!("set it with --metadata {key}=VALUE, or leave all out with --no-metadata"))
        }
        TensorFilesError::Beyond { .. } => {
            text("choose a --dtype with a larger range, or write the largest number in their place with --saturate")
        }
        TensorFilesError::OtherBlocks { .. } => {
            text("--dequantize makes float32 numbers of the blocks, which are then quantized again, with a further loss")
        }
        TensorFilesError::NanInBlocks { .. } => text("leave the tensor out with --exclude, or write it with another --dtype"),
        TensorFilesError::CannotHold { remedy, .. } => Some(match remedy {
            Remedy::OrLeaveOut(_) | Remedy::ChooseOthers => format!("{remedy} with --only"),
            Remedy::OrDequantize => "write a .zt file, which keeps it as it is; `carton tensor convert --dequantize` makes float32 numbers of \
                                     quantized groups"
                .to_owned(),
            Remedy::OrRound(text) => format!("{text}, or round floats to another type with --dtype"),
            Remedy::Dequantize => "`carton tensor convert --dequantize` makes float32 numbers of quantized tensors".to_owned(),
            remedy => remedy.to_string(),
        }),
        TensorFilesError::Merge(MergeError::Method(BlendError::Models { .. })) => {
            text("the last argument is the file that is written")
        }
        TensorFilesError::Merge(MergeError::Quantized { .. }) => {
            text("make the models dense first, with `carton tensor convert --dequantize`")
        }
        TensorFilesError::NoSuchFile { .. } => text("`carton ls` shows its files"),
        TensorFilesError::NotInGroups { .. } => text("leave it as it is with --only, or leave --group-size out"),
        TensorFilesError::OneFits { .. } => text("choose one with --only NAME, or write an .npz file"),
        TensorFilesError::NoneMatches { .. } | TensorFilesError::NotOne { .. } => {
            text("`carton tensor ls` shows their names")
        }
        TensorFilesError::UnknownOutput { .. } => {
            error.hint().map(|hint| format!("{hint}; `carton pack` makes cartons"))
        }
        error if error.carton().is_some() => error.carton().and_then(hints::hint),
        error => match error.as_ztensor() {
            Some(ZTensorError::Sparse(SparseError::DenseSize { .. })) => {
                text("if it should be that large, allow it with --max-dense SIZE, such as 64GB")
            }
            _ => error.hint(),
        },
    }
}
