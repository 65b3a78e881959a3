//! Reads files of an open carton; verifies all of them, or writes them into a folder.

use std::future::IntoFuture;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use carton_format::context::Context;
use carton_format::manifest::ManifestHash;
use carton_format::progress::ProgressCallback;
use carton_tensor::files::{FileBytes, ReadAt, SharedBytes};

use crate::Error;
use crate::blocking::{Awaited, run_blocking};
use crate::contents::{FileInfo, VerifyReport};
use crate::package::Package;
use crate::settings::progress_setter;

/// A file of an open carton, read by position.
struct PackageFile {
    package: Package,
    path: String,
    length: u64,
}

impl ReadAt for PackageFile {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.package.read_file_range(&self.path, offset, buffer).map_err(io::Error::other)
    }
}

impl Package {
    /// Returns the SHA-256 of MANIFEST, the model's hash; `None` for a model that is not in a carton.
    #[must_use]
    pub fn manifest_sha256(&self) -> Option<ManifestHash> {
        self.contents().manifest_hash()
    }

    /// Returns what is known about each file without reading it, sorted by path.
    #[must_use]
    pub fn files(&self) -> Vec<FileInfo> {
        self.contents().files()
    }

    /// Reads a file of at most `cap` bytes and verifies it. A file that is elsewhere is fetched first.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::Carton;
    /// let package = Carton::open("digits.carton").await?;
    /// let metadata = package.read_file("carton.toml", 1 << 20)?;
    /// println!("{} bytes", metadata.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The file does not exist, is larger than `cap`, cannot be fetched, or does not match MANIFEST.
    pub fn read_file(&self, path: &str, cap: u64) -> Result<Vec<u8>, Error> {
        Ok(self.contents().read(path, cap, self.context())?)
    }

    /// Fills `buffer` with the bytes of a file from `offset` on. The first call verifies the whole file, unless an earlier
    /// verification is remembered; later calls read only the bytes that they return. A file that is elsewhere is fetched first.
    ///
    /// # Errors
    /// The file does not exist, ends before `buffer` is full, cannot be fetched, or does not match MANIFEST.
    pub fn read_file_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        Ok(self.contents().read_range(path, offset, buffer, self.context())?)
    }

    /// Returns the verified bytes of a file as a view of the memory-mapped carton or cached file that holds them; `None` for a
    /// carton in memory. Nothing is copied, and all views share one map.
    ///
    /// Use it only for cartons that no other program writes to while the bytes are in use: if the carton is truncated, the next
    /// access to the bytes ends the process with SIGBUS. A file of the cache does not change, and its bytes stay readable even if
    /// it is deleted.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_tensor::safetensors::Reader;
    /// let package = carton_core::Carton::open("model.carton").await?;
    /// let path = "tensor_data/tensors.safetensors";
    /// let bytes = package.map_file(path)?.ok_or("the carton is in memory")?;
    /// let file = Reader::new(bytes, path)?;
    /// let view = file.read("x")?; // Its elements are the bytes of the carton.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`read_file_range`](Self::read_file_range); or the operating system cannot map the file.
    pub fn map_file(&self, path: &str) -> Result<Option<SharedBytes>, Error> {
        Ok(self.contents().map(path, self.context())?)
    }

    /// Returns the bytes of a file, to be read by position, as [`read_file_range`](Self::read_file_range) reads them.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let package = carton_core::Carton::open("model.carton").await?;
    /// let file = carton_tensor::safetensors::Reader::new(package.file_bytes("model/weights.safetensors")?, "weights")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`read_file_range`](Self::read_file_range), whose first call this makes: the whole file is verified, or fetched.
    pub fn file_bytes(&self, path: &str) -> Result<FileBytes, Error> {
        let length = self.contents().verified_length(path, self.context())?;
        Ok(FileBytes::from_reader(Arc::new(PackageFile { package: self.clone(), path: path.to_owned(), length })))
    }

    /// Hashes every file, using all cores and ignoring remembered verifications, and reports all bad files. If none is bad, the
    /// cache remembers that. Files that are elsewhere are fetched first.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::Carton;
    /// let report = Carton::open("digits.carton").await?.verify().await?;
    /// for file in &report.bad {
    ///     println!("{}: {}", file.path, file.error);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Only if the verification cannot be completed: files change meanwhile, or cannot be read. A bad file is not an error.
    pub fn verify(&self) -> Verify {
        Verify { package: self.clone(), progress: None }
    }

    /// Writes the carton into the new folder `destination`, as an unpacked carton with the same hash. Each file is verified while
    /// it is written.
    ///
    /// # Errors
    /// The folder is not empty or cannot be written, or a file does not match MANIFEST. Nothing is left behind then.
    pub fn unpack(&self, destination: impl Into<PathBuf>) -> Unpack {
        Unpack { package: self.clone(), destination: destination.into(), progress: None }
    }
}

/// The verification of a carton's files, to be awaited. Made by [`Package::verify`].
#[must_use = "nothing is verified until this is awaited"]
pub struct Verify {
    package: Package,
    progress: Option<ProgressCallback>,
}

/// The unpacking of a carton, to be awaited. Made by [`Package::unpack`].
#[must_use = "nothing is unpacked until this is awaited"]
pub struct Unpack {
    package: Package,
    destination: PathBuf,
    progress: Option<ProgressCallback>,
}

impl Verify {
    progress_setter!(progress);
}

impl Unpack {
    progress_setter!(progress);
}

impl IntoFuture for Verify {
    type Output = Result<VerifyReport, Error>;
    type IntoFuture = Awaited<'static, VerifyReport>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { package, progress } = self;
        Box::pin(async move {
            let verify = move |context: Context| Ok(package.contents().verify(&context)?);
            run_blocking(progress.as_ref(), verify).await
        })
    }
}

impl IntoFuture for Unpack {
    type Output = Result<(), Error>;
    type IntoFuture = Awaited<'static, ()>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { package, destination, progress } = self;
        Box::pin(async move {
            let unpack = move |context: Context| Ok(package.contents().unpack(&destination, &context)?);
            run_blocking(progress.as_ref(), unpack).await
        })
    }
}

impl std::fmt::Debug for Verify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verify").field("package", &self.package).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Unpack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpack").field("destination", &self.destination).finish_non_exhaustive()
    }
}
