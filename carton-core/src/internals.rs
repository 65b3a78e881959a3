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
        identity.is_ok_and(|identity| cache.verifications().is_carton_verified(&identity, manifest, Scope::Everything))
    }
}

pub mod error {
    use crate::Error;
    use crate::contents::ContentsError;
    use crate::package::PackageError;

    /// The error of `carton-format` that is the reason why a carton is refused. It is not among the causes where its text is that of the whole
    /// error.
    #[must_use]
    pub fn of_format(error: &Error) -> Option<&(dyn std::error::Error + 'static)> {
        match error.find::<PackageError>() {
            Some(PackageError::Contents(error)) => of_contents(error),
            Some(PackageError::Metadata(error)) => Some(error),
            Some(PackageError::TensorData(error)) => Some(error),
            Some(PackageError::Archive(error)) => Some(error),
            _ => of_contents(error.find()?),
        }
    }

    fn of_contents(error: &ContentsError) -> Option<&(dyn std::error::Error + 'static)> {
        match error {
            ContentsError::Manifest(error) => Some(error),
            ContentsError::Links(error) => Some(error),
            ContentsError::Archive { source, .. } => Some(source),
            _ => None,
        }
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

pub mod requirements_lock {
    use crate::diff::{PackageChange, compare_locks};

    /// Compares the packages of two `.carton/requirements.lock`.
    ///
    /// # Errors
    /// One of them is none, and why.
    pub fn compare(a: &[u8], b: &[u8]) -> Result<Vec<PackageChange>, String> {
        compare_locks(a, b)
    }
}

pub mod runner {
    use std::path::Path;

    use crate::Error;
    use crate::runner::{Descriptor, ExecutablePaths, descriptor};

    #[cfg(fuzzing)]
    pub use crate::runner::fuzzing;

    /// Parses the `runner.toml` of the folder `folder`.
    ///
    /// # Errors
    /// The file is not one.
    pub fn parse(text: &str, folder: &Path, allowed: ExecutablePaths) -> Result<Vec<Descriptor>, Error> {
        Ok(descriptor::parse(text, folder, allowed)?)
    }
}
