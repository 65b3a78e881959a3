//! Tensors that are to be written, and which of them a format can hold. Pure.

use std::collections::BTreeSet;

use carton_tensor::DataType;
use carton_tensor::files::ElementType;
use carton_tensor::gguf::{self, GgmlType, TensorProblem};
use carton_tensor::npy::leads_out;
use carton_tensor::ztensor::Version;
use carton_tensor::ztensor2;

use crate::error::{Remedy, TensorFilesError};
use crate::text::shown_name;
use crate::write_options::OutputFormat;

/// The longest name of a tensor in an .npz file: an entry's name has at most 65,535 bytes, `.npy` included.
const LONGEST_NPZ_NAME: usize = 65_535 - ".npy".len();

/// The remedy for a tensor that version 1.1 of zTensor cannot hold.
const TOO_NEW: Remedy = Remedy::OrLeaveOut("write version 1.2");

/// A tensor that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) kind: PlannedKind,
}

/// The representation of a planned tensor.
#[derive(Clone, Debug)]
pub(crate) enum PlannedKind {
    Numbers(ElementType, Vec<usize>),
    Strings,
    /// Integers and their scales, as one object of a zTensor file.
    Group,
    /// An object of several components, or one that is more than its numbers. Only a zTensor file can hold it unchanged.
    Object {
        what: String,
        /// Describes what version 1.1 of the format cannot represent, if anything.
        not_in_1_1: Option<String>,
    },
    Nested,
    /// Blocks of a quantized type of ggml.
    Blocks(GgmlType, Vec<usize>),
    /// A tensor that cannot be read, and the reason.
    Unusable(String),
}

/// Checks that no two tensors have one name.
pub(crate) fn check_names(planned: &[Planned]) -> Result<(), TensorFilesError> {
    let mut names = BTreeSet::new();
    match planned.iter().find(|planned| !names.insert(planned.name.as_str())) {
        Some(twice) => Err(TensorFilesError::ScaleNameTaken { name: shown_name(&twice.name) }),
        None => Ok(()),
    }
}

/// Checks that a file of this format can hold a tensor.
pub(crate) fn check(planned: &Planned, format: OutputFormat, version: Version) -> Result<(), TensorFilesError> {
    let refused = |what: String, remedy| {
        Err(TensorFilesError::CannotHold { format: format.name(), name: shown_name(&planned.name), what, remedy })
    };
    if format == OutputFormat::Npz && planned.name.len() > LONGEST_NPZ_NAME {
        return refused(
            "whose name is too long for the entry of a zip".to_owned(),
            Remedy::Text("write a .safetensors or .zt file"),
        );
    }
    if format == OutputFormat::Npz && leads_out(&planned.name) {
        return refused(
            "whose name leads out of the folder in which the file is unpacked".to_owned(),
            Remedy::OrLeaveOut("rename it, write a .safetensors or .zt file"),
        );
    }
    match (&planned.kind, format) {
        (PlannedKind::Nested, _) => refused(
            "a list of tensors".to_owned(),
            Remedy::Text("the tensors in the list have names of their own: convert them instead"),
        ),
        (PlannedKind::Blocks(of, shape), OutputFormat::Gguf) => check_gguf(planned, *of, shape),
        (PlannedKind::Blocks(of, _), _) => refused(format!("blocks of {of}"), Remedy::Dequantize),
        (PlannedKind::Unusable(reason), _) => refused(format!("which cannot be read: {reason}"), Remedy::ChooseOthers),
        (
            PlannedKind::Strings,
            OutputFormat::Safetensors | OutputFormat::Ztensor | OutputFormat::Ztensor2 | OutputFormat::Gguf,
        ) => refused("strings".to_owned(), Remedy::OrLeaveOut("write strings to an .npz or .npy file")),
        (PlannedKind::Numbers(dtype, shape), OutputFormat::Gguf) => match GgmlType::of_elements(*dtype) {
            Some(of) => check_gguf(planned, of, shape),
            None if dtype.is_float() => {
                refused(format!("numbers of {dtype}"), Remedy::OrRound("write a .safetensors or .zt file"))
            }
            None => refused(format!("numbers of {dtype}"), Remedy::OrLeaveOut("write a .safetensors or .zt file")),
        },
        (PlannedKind::Group, OutputFormat::Gguf) => refused("a quantized group".to_owned(), Remedy::OrDequantize),
        (PlannedKind::Group, OutputFormat::Safetensors | OutputFormat::Npz | OutputFormat::Npy) => {
            refused("a quantized group".to_owned(), Remedy::Text("write a .zt file"))
        }
        (PlannedKind::Numbers(dtype, _), OutputFormat::Ztensor) if !version.has(*dtype) => {
            refused(format!("numbers of {dtype}, in version 1.1"), TOO_NEW)
        }
        (PlannedKind::Object { not_in_1_1: Some(what), .. }, OutputFormat::Ztensor) if version == Version::V1_1 => {
            refused(format!("{what}, in version 1.1"), TOO_NEW)
        }
        (PlannedKind::Group | PlannedKind::Object { .. }, OutputFormat::Ztensor2) => {
            let what = match &planned.kind {
                PlannedKind::Object { what, .. } => what.clone(),
                _ => "a quantized group".to_owned(),
            };
            refused(what, Remedy::OrDequantize)
        }
        (PlannedKind::Numbers(dtype, _), OutputFormat::Ztensor2) if !ztensor2::has(*dtype) => {
            refused(format!("numbers of {dtype}"), Remedy::OrLeaveOut("write version 1.2"))
        }
        (
            PlannedKind::Object { what, .. },
            OutputFormat::Safetensors | OutputFormat::Npz | OutputFormat::Npy | OutputFormat::Gguf,
        ) => refused(what.clone(), Remedy::OrDequantize),
        (PlannedKind::Numbers(dtype, _), OutputFormat::Npz | OutputFormat::Npy) if !is_in_numpy(*dtype) => {
            refused(format!("numbers of {dtype}"), Remedy::Text("write a .safetensors or .zt file"))
        }
        (PlannedKind::Numbers(ElementType::Complex128, _), OutputFormat::Safetensors) => {
            refused("numbers of complex128".to_owned(), Remedy::Text("write a .zt or .npz file"))
        }
        (PlannedKind::Numbers(..), OutputFormat::Safetensors) if planned.name == "__metadata__" => {
            refused("whose name is reserved there".to_owned(), Remedy::Text("write a .zt or .npz file"))
        }
        _ => Ok(()),
    }
}

/// Checks that a GGUF file can hold a tensor.
fn check_gguf(planned: &Planned, of: GgmlType, shape: &[usize]) -> Result<(), TensorFilesError> {
    let Err(problem) = gguf::check_tensor(&planned.name, of, shape) else { return Ok(()) };
    let remedy = match problem {
        TensorProblem::LongName { .. } | TensorProblem::NulInName => Remedy::OrLeaveOut("rename it"),
        _ => Remedy::OrLeaveOut("write a .safetensors or .zt file"),
    };
    let name = shown_name(&planned.name);
    Err(TensorFilesError::CannotHold { format: OutputFormat::Gguf.name(), name, what: problem.to_string(), remedy })
}

/// Whether NumPy's file formats have a name for this type.
#[must_use]
pub fn is_in_numpy(dtype: ElementType) -> bool {
    let is_short = |dtype: DataType| dtype.is_float() && dtype.size() == Some(1);
    dtype.data_type().is_some_and(|dtype| dtype != DataType::BFloat16 && !is_short(dtype))
}
