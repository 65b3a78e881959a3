//! A packed carton: what was written, what was warned of, and how it was checked. Packing makes it, and so does putting
//! back what was left out.

mod warning;

use std::fmt;
use std::path::PathBuf;

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use serde::Serialize;

pub use self::warning::PackWarning;
use crate::package::NotPacked;
use crate::self_test_report::SelfTestReport;

/// The result of packing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Packed {
    /// The path of the carton.
    pub path: PathBuf,
    /// The SHA-256 of its MANIFEST: the model's hash.
    pub manifest_sha256: ManifestHash,
    /// The digests in [`Pack::known_links`](crate::Pack::known_links) that match no file that can be left out, sorted.
    pub unmatched: Vec<Sha256Digest>,
    /// What of the model's folder is not packed: what no model needs, such as `.git`, and what `.cartonignore` and [`Pack::exclude`](crate::Pack::exclude)
    /// leave out.
    pub not_packed: Vec<NotPacked>,
    /// What may be unintended. [`Carton::pack`](crate::Carton::pack) has logged each when it was found, as a warning.
    pub warnings: Vec<PackWarning>,
    /// The result of the check; `None` if there was none.
    pub check: Option<PackCheck>,
}

/// The result of a successful check of a packed model: it loaded, its signature does not contradict it, and no self-test failed.
///
/// `Display` says what was checked: `checked: loads in onnx 1.32.0; 2 self-tests passed`. It does not begin with `checked` if no value was
/// compared with an expected one. In JSON, the fields of the report stand beside `runner`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PackCheck {
    /// Name and version of the runner that loaded the model.
    pub runner: String,
    /// The run on zeros; `None` if there are self-tests, or if no outputs are declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zeros: Option<ZeroRun>,
    /// The results of the self-tests, none of which failed.
    #[serde(flatten)]
    pub report: SelfTestReport,
}

/// A run of a model on inputs of zeros, whose outputs were compared with the declared ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ZeroRun {
    /// Whether the model ran. It need not take zeros.
    pub ran: bool,
    /// Why it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Display for PackCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runner, zeros, report } = self;
        let counts = report.counts;
        if counts.passed > 0 {
            f.write_str("checked: ")?;
        }
        write!(f, "loads in {runner}")?;
        match zeros {
            Some(ZeroRun { ran: true, .. }) => f.write_str(" and runs on zeros")?,
            Some(ZeroRun { error, .. }) => {
                write!(f, "; does not run on zeros ({})", error.as_deref().unwrap_or("no reason is known"))?;
            }
            None => {}
        }
        write!(f, "; {report}")?;
        match (counts.passed, counts.ran) {
            (0, 1..) => f.write_str(" without expected outputs"),
            _ => Ok(()),
        }
    }
}
