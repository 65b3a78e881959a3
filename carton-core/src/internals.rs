//! The parts below the public API that benchmarks, tests and fuzz targets of this workspace use. They change without notice.

pub mod cache {
    use std::path::Path;

    use carton_format::manifest::ManifestHash;
    use carton_format::source::FileIdentity;

    use crate::cache::{Cache, Scope};

    /// Whether `cache` remembers that every file of the carton at `path` was verified.
    #[must_use]
    pub fn is_carton_verified(cache: &Cache, path: &Path, manifest: &ManifestHash) -> bool {
        let identity = std::fs::metadata(path).map(|metadata| FileIdentity::of(&metadata));
        identity.is_ok_and(|identity| cache.is_carton_verified(&identity, manifest, Scope::Everything))
    }
}

pub mod model {
    use carton_format::context::Context;

    use crate::{Error, Package};

    pub use crate::contents::{ModelDirectory, ModelRange, ModelRanges};

    /// Returns a folder with the verified files of the model: what a runner gets that asks for a folder.
    ///
    /// # Errors
    /// A file does not match MANIFEST or cannot be fetched; the folder cannot be written.
    pub fn directory(package: &Package) -> Result<ModelDirectory, Error> {
        Ok(package.contents().model_directory(&Context::default())?)
    }

    /// Returns the verified files of the model as ranges of open files: what a runner gets that asks for ranges.
    ///
    /// # Errors
    /// As [`directory`].
    pub fn ranges(package: &Package) -> Result<ModelRanges, Error> {
        Ok(package.contents().model_ranges(&Context::default())?)
    }
}

pub mod runner {
    pub use crate::runner::descriptor::parse;
    #[cfg(fuzzing)]
    pub use crate::runner::fuzzing;
}
