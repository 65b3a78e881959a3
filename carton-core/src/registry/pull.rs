//! Writes a carton of a registry as a file.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::io::Write;
use std::path::{Path, PathBuf};

use carton_format::archive::Compression;
use carton_format::manifest::ManifestHash;
use carton_format::url::Url;
use carton_tensor::files::PendingFile;

use super::Reference;
use crate::blocking::{Awaited, run_blocking};
use crate::contents::ContentsError;
use crate::open::{self, Open};
use crate::package;
use crate::settings::{OpenSettings, open_setters};
use crate::trust::bundle_path;
use crate::{Carton, Error, Location};

/// A carton to be written as a file. Made by [`Carton::pull`]; setters configure it, and `.await` writes the file.
#[derive(Clone, Debug)]
#[must_use = "nothing is written until this is awaited"]
pub struct Pull {
    reference: Reference,
    output: PathBuf,
    compression: Compression,
    open: OpenSettings,
}

/// The result of [`Carton::pull`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pulled {
    /// The carton.
    pub path: PathBuf,
    /// The SHA-256 of its MANIFEST.
    pub manifest_sha256: ManifestHash,
    /// The bundle that was written beside it, if it has one.
    pub bundle: Option<PathBuf>,
}

impl Pull {
    open_setters!(open);

    /// Sets how the large files are compressed. The others keep their compression.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    async fn pull(self) -> Result<Pulled, Error> {
        let Self { reference, output, compression, open } = self;
        let progress = open.operation.progress().cloned();
        let config = open.operation.config()?;
        let url = Url::parse(&reference.to_string()).map_err(|error| Error::internal(error.to_string()))?;
        let package = Open::new(Location::from(&url), open).await?;
        run_blocking(progress.as_ref(), move |context| {
            let contents = package.contents();
            let none = || ContentsError::NoManifest { location: contents.location() };
            let manifest_sha256 = contents.manifest_hash().ok_or_else(none)?;
            // What the carton only links to stays so.
            let linked = contents.files().into_iter().filter(|file| file.linked).map(|file| file.path);
            let left_out: BTreeSet<String> = linked.collect();
            contents.fetch(|path| !left_out.contains(path), &context)?;
            let bundle = open::bundle_in_registry(&package, &url, &config, &context)?;
            package::rewrite(contents, &left_out, contents.links(), &output, compression, &context)?;
            let beside = bundle_path(&output);
            let bundle = match bundle {
                Some(bytes) => {
                    write(&beside, &bytes)?;
                    Some(beside)
                }
                None if beside.exists() => {
                    tracing::warn!(
                        "`{}` was there before, and is not from the registry: it may belong to another carton",
                        beside.display()
                    );
                    None
                }
                None => None,
            };
            Ok(Pulled { path: output, manifest_sha256, bundle })
        })
        .await
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = PendingFile::new(path).map_err(Error::io("write", path))?;
    file.file_mut().write_all(bytes).map_err(Error::io("write", path))?;
    file.publish().map_err(Error::io("write", path))
}

impl IntoFuture for Pull {
    type Output = Result<Pulled, Error>;
    type IntoFuture = Awaited<'static, Pulled>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.pull())
    }
}

impl Carton {
    /// Writes a carton of a registry to `output`, with all its files, and its bundle beside it. It has the same hash as the carton that
    /// was pushed.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::Carton;
    /// Carton::pull("oci://registry.example.com/team/digits:1.0".parse()?, "digits.carton").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such artifact, or it is not a carton; the registry cannot be reached or refuses the login; a file does not match MANIFEST;
    /// the output cannot be written. The file that was at `output` before is still there then.
    pub fn pull(reference: Reference, output: impl Into<PathBuf>) -> Pull {
        Pull { reference, output: output.into(), compression: Compression::default(), open: OpenSettings::default() }
    }
}
