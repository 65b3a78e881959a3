//! [`Carton::open`]: the carton without a runner.

use std::path::Path;
use std::sync::Arc;

use carton_format::archive::Archive;
use carton_format::manifest;
use carton_format::source::FileSource;

use super::Carton;
use crate::location::Location;
use crate::open::Open;
use crate::package;
use crate::settings::OpenSettings;

impl Carton {
    /// Opens a carton, or a folder that holds an unpacked one, without starting a runner: to read its metadata, files and
    /// tensors, to verify it, or to unpack it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::Carton;
    /// let package = Carton::open("digits.carton").await?;
    /// println!("{:?}, {} files", package.metadata().model_name(), package.info().files.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The carton is malformed, or its MANIFEST is not the [expected](Open::expect_hash) one. Files are verified only when they
    /// are read.
    pub fn open(location: impl Into<Location>) -> Open {
        Open::new(location.into(), OpenSettings::default())
    }

    /// Whether the file at `path` is a zip file with a MANIFEST and a carton.toml. Frameworks use zip files too, so a file's name
    /// and first bytes are not enough to recognize a carton. Nothing is verified.
    #[must_use]
    pub fn looks_like_one(path: impl AsRef<Path>) -> bool {
        let Ok(source) = FileSource::open(path.as_ref()) else { return false };
        let archive = Archive::open(Arc::new(source));
        archive.is_ok_and(|archive| archive.get(manifest::NAME).is_some() && archive.get(package::METADATA).is_some())
    }
}
