//! A carton as listings and errors describe it.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use carton_format::manifest::ManifestHash;
use carton_format::url::ShownUrl;

/// A carton that has data in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedCarton {
    /// Its manifest hash.
    pub manifest: ManifestHash,
    /// The model's name in its metadata.
    pub model_name: Option<String>,
    /// The URL where it was last found, without the parts that may be secret; `None` for a carton that was loaded from a file.
    pub address: Option<ShownUrl>,
    /// The file or folder from which it was last loaded, if any.
    pub path: Option<PathBuf>,
    /// The bytes that it uses in the cache, including those that it shares with others.
    pub bytes: u64,
    /// When it was last loaded or looked up.
    pub last_used: SystemTime,
    /// Whether any process has it loaded now.
    pub in_use: bool,
}

/// A line for each carton, for the message of `CacheError::Ambiguous`.
pub(super) fn matches_text(matches: &[CachedCarton]) -> String {
    let mut text = String::new();
    for carton in matches {
        let name = carton.model_name.as_deref().unwrap_or("without a name");
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {} {}", carton.manifest, name.escape_debug());
        if let Some(from) = &carton.address {
            let _ = write!(text, " from {from}");
        } else if let Some(path) = &carton.path {
            let _ = write!(text, " from {}", path.display().to_string().escape_debug());
        }
    }
    text
}
