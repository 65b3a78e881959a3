//! What the user can do about an error.

use std::fmt;
use std::path::PathBuf;

use carton_tensor::DataType;
use carton_tensor::content::Content;

use crate::sandbox::{SuspectedLimit, limits_hint};

/// What the user can do about an error. Its text is in the words of this library; a program can match it, and name its own options and
/// commands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// In words only.
    Text(String),
    /// In the words of a runner, or of the sandbox that confines it. Where they name a right, it is as `allow the network`, `allow reading
    /// ‹path›` in backticks, or `allow building packages from source`.
    OfRunner(String),
    /// Raise these limits of the sandbox.
    RaiseLimits(Vec<SuspectedLimit>),
    /// Make room on the disk.
    FreeSpace,
    /// Declare the inputs of the model that is packed.
    DeclareInputs,
    /// Declare the outputs of the model that is packed, or record a self-test.
    DeclareOutputs,
    /// Leave a file with a secret out of the model that is packed, or allow it.
    AllowSecret {
        /// Its path in the model's folder, or the name of a text of the metadata.
        path: String,
        /// Whether it is a file of the model's folder, which can be left out.
        is_in_folder: bool,
    },
    /// Name the runner of the model that is packed.
    NameRunner {
        /// What the file of the model is, if it is recognized.
        content: Option<Content>,
    },
    /// Give the SHA-256 of what is fetched.
    PassDigest,
    /// Say whom to trust: by a public key, or by a rule of the configuration.
    TrustSomebody,
    /// Install a runner again.
    Reinstall {
        /// The name of the runner.
        runner: String,
    },
    /// Install a runner by a program that finds the library that it needs.
    InstallWithLibrary {
        /// The name of the runner.
        runner: String,
        /// Its version.
        version: String,
    },
    /// Look at the list of the installed runners.
    ListRunners,
    /// Look at the list of the cartons in the cache.
    ListCache,
    /// Make a tensor of the file that an example has as an input, and pass that.
    PassTensor,
    /// Pass an input in parts, or use a runner that supports shared memory.
    SplitInput,
    /// Allow a carton to link to files on this machine.
    AllowFileLinks,
    /// Allow the model to read a file outside of its folder, or copy it there.
    AllowReading(PathBuf),
    /// Look up the SHA-256 of the files that are to be left out of a carton.
    LookUpDigests {
        /// Whether the files are in a carton. They may else be on the disk.
        in_carton: bool,
    },
    /// Leave smaller files out of a carton too.
    LowerMinSize,
    /// Pass the missing input, or run the model without it.
    PassInput,
    /// Declare that an input has booleans, or pass numbers.
    DeclareBools {
        /// How to declare it.
        how: String,
        /// Whether a cast makes the numbers of it.
        castable: bool,
    },
    /// Pass an input as the declared type.
    CastInput {
        /// The input.
        input: String,
        /// The declared type.
        dtype: DataType,
    },
    /// Look at what the carton declares.
    ReadSignature,
    /// Look at what the carton declares, or run the model although it declares something else.
    WaiveSignature,
    /// Confine the runner only as far as this system can.
    RelaxSandbox,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(text) | Self::OfRunner(text) => text,
            Self::RaiseLimits(limits) => return f.write_str(&limits_hint(limits)),
            Self::FreeSpace => "make room; pruning the cache deletes unused entries",
            Self::DeclareInputs => "name the inputs, or declare them in the metadata: a carton.toml with [[input]]",
            Self::DeclareOutputs => "declare [[output]], record a self-test, or give a self-test its expected_out",
            Self::AllowSecret { path, is_in_folder: true } => {
                return write!(f, "leave it out, by a line in .cartonignore or by excluding it; or allow `{path}`, if it is no secret");
            }
            Self::AllowSecret { path, is_in_folder: false } => {
                return write!(f, "take it out; or allow `{path}`, if it is no secret");
            }
            Self::NameRunner { .. } => "name the runner",
            Self::TrustSomebody => "give the public key of whom you trust",
            Self::PassDigest => "give the SHA-256 that the archive must have",
            Self::Reinstall { .. } => "install the runner again",
            Self::InstallWithLibrary { .. } => "install it with the command `carton`, which finds the library",
            Self::ListRunners => "the list of the runners shows what is installed",
            Self::ListCache => "the list of the cache has those that are there",
            Self::PassTensor => {
                "make a tensor of the file, as the model needs it, and pass that; unpacking the carton gives the file"
            }
            Self::SplitInput => "pass the input in parts, or use a runner that supports shared memory",
            Self::AllowFileLinks => {
                "a carton on this machine may link to files on this machine where that is allowed, by the caller or by \
                 `allow_file_links = true` in the configuration; one on a server never may"
            }
            Self::AllowReading(_) => "allow the model to read that, if it is meant; or put a copy in place of the link",
            Self::LookUpDigests { in_carton: false } => {
                "`sha256sum` prints the SHA-256 of a file; MANIFEST has those of a carton"
            }
            Self::LookUpDigests { in_carton: true } => "MANIFEST has the SHA-256 of each file",
            Self::LowerMinSize => "name a smaller size from which files are left out",
            Self::PassInput => {
                "pass it; or load the model with the signature mode `warn`, where it does without it"
            }
            Self::DeclareBools { how, .. } => {
                return write!(f, "{how}; if the model takes 0 and 1 as numbers, pass these");
            }
            Self::CastInput { input, dtype } => {
                return write!(f, "pass `{input}` as {dtype}, by a cast that changes no value but by rounding");
            }
            Self::ReadSignature => "the carton declares what the model expects",
            Self::WaiveSignature => {
                "the carton declares what the model expects; where it declares the wrong thing, the signature mode `warn` runs the model \
                 anyway"
            }
            Self::RelaxSandbox => "use a system that has all of it, or the sandbox `on`, which enforces what this system has",
        })
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
