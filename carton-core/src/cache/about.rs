//! The name and origin of a carton, for people who look into the cache. Nothing else depends on it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::CacheError;
use super::carton_records::CartonRecords;

const NAME: &str = "about";
const LARGEST_RECORD: u64 = 64 << 10;
/// A longer name is not recorded, because a list of cartons could not show it.
const LONGEST_NAME: usize = 1 << 10;

/// What is known about a carton besides its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// The model's name in its metadata.
    pub(crate) model_name: Option<String>,
    /// The file or folder from which it was loaded; `None` if it came from a server.
    pub(crate) path: Option<PathBuf>,
}

impl About {
    pub(crate) fn new(model_name: Option<&str>, path: Option<PathBuf>) -> Self {
        Self { model_name: model_name.filter(|name| name.len() <= LONGEST_NAME).map(str::to_owned), path }
    }
}

impl CartonRecords<'_> {
    /// Records what is known about a carton that uses the cache, unless the record says the same already. A recorded path is kept if
    /// `about` has none.
    pub(crate) fn describe(&self, about: &About) -> Result<(), CacheError> {
        let known = self.about();
        let about = About {
            model_name: about.model_name.clone(),
            path: about.path.clone().or_else(|| known.as_ref().and_then(|known| known.path.clone())),
        };
        if known.as_ref() == Some(&about) {
            return Ok(());
        }
        let bytes =
            serde_json::to_vec(&about).map_err(|error| CacheError::io("write", &self.path(NAME))(error.into()))?;
        self.write(NAME, &bytes)
    }

    /// Returns what is recorded about a carton. A damaged record counts as missing.
    pub(super) fn about(&self) -> Option<About> {
        serde_json::from_slice(&self.read(NAME, LARGEST_RECORD)?).ok()
    }
}
