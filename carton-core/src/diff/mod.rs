//! What differs between two cartons: what they say, their files, the tensors in them, the packages of Python models, self-tests, examples and
//! links.
//!
//! Files are compared by the digests in MANIFEST, so that none has to be read. Tensors of files that differ are read where all of both files
//! is on this machine, and otherwise only if the caller asks for it: they may be large, and everything else is known without them. Like all
//! reading of cartons, that verifies each file first, and a carton that changes meanwhile is an error.

mod cases;
mod error;
mod files;
mod metadata;
mod packages;
mod report;
mod tensors;

use std::future::IntoFuture;
use std::path::{Path, PathBuf};

use carton_format::context::Context;
use carton_format::progress::Stage;
pub use carton_tensor::difference::{
    DifferingElement, ElementsDifference, TensorChange, TensorDifference, TensorForm, TensorsDifference,
};
use carton_tensor::{Tolerance, difference};

use cases::Cases;
use packages::Lock;
pub use report::{
    CartonDiff, CaseChange, Change, DiffedCarton, FieldChange, FileChange, FileTensors, FileVersion, LinkChange,
    PackageChange, Packages, SpecChange,
};
use tensors::TensorSettings;

use crate::blocking::{Awaited, run_blocking};
use crate::contents::ContentsError;
use crate::location::Location;
use crate::open::Open;
use crate::package::Package;
use crate::settings::{OpenSettings, operation_setters};
use crate::{Carton, Error};

/// One of two cartons to be compared: where it is, or an open one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DiffSide {
    /// A carton at a location.
    At(Location),
    /// An open carton.
    Open(Package),
}

impl From<Package> for DiffSide {
    fn from(package: Package) -> Self {
        Self::Open(package)
    }
}

macro_rules! sides {
    ($($place:ty),*) => {$(
        impl From<$place> for DiffSide {
            fn from(place: $place) -> Self {
                Self::At(Location::from(place))
            }
        }
    )*};
}

sides!(&str, String, &Path, PathBuf);

impl From<Location> for DiffSide {
    fn from(location: Location) -> Self {
        Self::At(location)
    }
}

/// Two cartons to be compared. Made by [`Carton::diff`]; setters configure it, and `.await` compares them.
#[derive(Clone, Debug)]
#[must_use = "nothing is compared until this is awaited"]
pub struct Diff {
    a: DiffSide,
    b: DiffSide,
    tensors: TensorSettings,
    open: OpenSettings,
}

impl Diff {
    operation_setters!(open.operation);

    /// Whether LINKS of local cartons may name local files. Off by default. An open carton stays as it was opened, for this and the following.
    pub fn allow_file_links(mut self, allow: bool) -> Self {
        self.open.allow_file_links = allow;
        self
    }

    /// Refuses cartons that are not signed by `key`, or by another key that is passed like this.
    pub fn trust_key(mut self, key: crate::trust::PublicKey) -> Self {
        self.open.trust.keys.push(key);
        self
    }

    /// Whether cartons without a trusted signer are refused.
    pub fn require_signed(mut self, required: bool) -> Self {
        self.open.trust.required = Some(required);
        self
    }

    /// Looks for the bundles that sign the cartons even where none is required, so that the result can tell what was found.
    pub fn look_for_bundles(mut self) -> Self {
        self.open.trust.reported = true;
        self
    }

    /// Whether to fetch files that are elsewhere, to compare the tensors in them. Off by default.
    pub fn fetch(mut self, fetch: bool) -> Self {
        self.tensors.fetch = fetch;
        self
    }

    /// Takes numbers in tensors as equal that are as close as this. By default every difference counts; NaN equals NaN in any case.
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tensors.elements = difference::DifferenceOptions::default().tolerance(tolerance);
        self
    }

    async fn diff(self) -> Result<CartonDiff, Error> {
        let Self { a, b, tensors, open } = self;
        let progress = open.operation.progress().cloned();
        let (location_a, a) = opened(a, &open).await?;
        let (location_b, b) = opened(b, &open).await?;
        run_blocking(progress.as_ref(), move |context| {
            compare((location_a, &in_context(a, &context)), (location_b, &in_context(b, &context)), &tensors, &context)
        })
        .await
    }
}

impl IntoFuture for Diff {
    type Output = Result<CartonDiff, Error>;
    type IntoFuture = Awaited<'static, CartonDiff>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.diff())
    }
}

impl Carton {
    /// Says what differs between two cartons: what they say about their models, files, tensors by name with the largest difference, packages of
    /// Python models, self-tests, examples and links. Takes locations, as [`Carton::open`] does, and open [`Package`]s.
    ///
    /// Of cartons on servers, only what describes them is fetched, unless [`Diff::fetch`] is set. Tensors are compared in `.safetensors`, `.zt`,
    /// `.npy` and `.npz` files of models, and in sharded checkpoints.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::Carton;
    /// let diff = Carton::diff("digits-1.carton", "digits-2.carton").await?;
    /// for file in &diff.files {
    ///     println!("{} {:?}", file.path, file.change);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A carton cannot be opened, or is not signed as it must be; a file that is read does not match MANIFEST, or changes meanwhile.
    pub fn diff(a: impl Into<DiffSide>, b: impl Into<DiffSide>) -> Diff {
        Diff { a: a.into(), b: b.into(), tensors: TensorSettings::default(), open: OpenSettings::default() }
    }
}

async fn opened(side: DiffSide, settings: &OpenSettings) -> Result<(Option<String>, Package), Error> {
    match side {
        DiffSide::Open(package) => Ok((None, package)),
        // The location as it was given says more than that of a file in the cache.
        DiffSide::At(location) => Ok((Some(location.to_string()), Open::new(location, settings.clone()).await?)),
    }
}

/// The package, with calls that end when the comparison is cancelled.
fn in_context(package: Package, context: &Context) -> Package {
    let reports = context.clone();
    package.cancel_token(context.cancel_token().clone()).progress(move |event| reports.report(event))
}

fn compare(
    (location_a, a): (Option<String>, &Package),
    (location_b, b): (Option<String>, &Package),
    settings: &TensorSettings,
    context: &Context,
) -> Result<CartonDiff, Error> {
    let described = |location: Option<String>, package: &Package| DiffedCarton {
        location: location.unwrap_or_else(|| package.contents().location()),
        manifest_sha256: package.manifest_sha256(),
        model_name: package.metadata().model_name().map(str::to_owned),
        signing: package.signing_status().cloned(),
    };
    let (files_a, files_b) = (a.files(), b.files());
    let mut diff = CartonDiff {
        is_same: a.manifest_sha256().is_some() && a.manifest_sha256() == b.manifest_sha256(),
        is_incomplete: false,
        a: described(location_a, a),
        b: described(location_b, b),
        metadata: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        files: Vec::new(),
        tensors: Vec::new(),
        packages: None,
        self_tests: Vec::new(),
        examples: Vec::new(),
        links: files::compare_links((a.contents().links(), &files_a), (b.contents().links(), &files_b)),
    };
    if diff.is_same {
        return Ok(diff);
    }
    diff.files = files::compare(&files_a, &files_b);
    diff.metadata =
        metadata::compare((a.metadata(), &a.metadata_text(context)?), (b.metadata(), &b.metadata_text(context)?));
    diff.inputs = metadata::compare_specs(a.metadata().inputs(), b.metadata().inputs());
    diff.outputs = metadata::compare_specs(a.metadata().outputs(), b.metadata().outputs());
    diff.packages = compare_packages(a, b, &diff.files, context)?;
    let cases = Cases { a, b, settings };
    cases.defaults(&mut diff.inputs)?;
    diff.self_tests = cases.self_tests()?;
    diff.examples = cases.examples()?;
    let size =
        |files: &[crate::contents::FileInfo]| files.iter().filter_map(|file| file.size).fold(0, u64::saturating_add);
    let meter = context.meter(Stage::Compare, size(&files_a).saturating_add(size(&files_b)));
    for pair in files::pairs(&files_a, &files_b, &diff.files) {
        context.check()?;
        diff.tensors.push(tensors::compare(a, b, pair, settings, &meter)?);
    }
    diff.is_incomplete = is_incomplete(&diff);
    Ok(diff)
}

fn is_incomplete(diff: &CartonDiff) -> bool {
    let cases = || diff.self_tests.iter().chain(&diff.examples);
    let lists = diff.tensors.iter().map(|file| &file.found);
    let lists = lists.chain(diff.inputs.iter().filter_map(|input| input.default.as_ref()));
    let mut lists = lists.chain(cases().flat_map(|case| [&case.inputs, &case.outputs]));
    let is_unknown = |tensor: &TensorDifference| {
        tensor.change == TensorChange::NotCompared || (tensor.change == TensorChange::Dtype && tensor.reason.is_some())
    };
    lists.any(|list| list.tensors.iter().any(is_unknown))
        || diff.tensors.iter().any(|file| file.problem.is_some())
        || diff.packages.as_ref().is_some_and(|packages| packages.problem.is_some())
}

/// Compares the packages of two locks.
///
/// # Errors
/// One of them is none, and why.
pub(crate) fn compare_locks(a: &[u8], b: &[u8]) -> Result<Vec<PackageChange>, String> {
    Ok(packages::compare(&Lock::parse(a)?, &Lock::parse(b)?))
}

/// Compares the locked packages, if a lock differs.
fn compare_packages(
    a: &Package,
    b: &Package,
    changes: &[FileChange],
    context: &Context,
) -> Result<Option<Packages>, Error> {
    let is_lock =
        |change: &&FileChange| change.path == packages::LOCK || change.path_a.as_deref() == Some(packages::LOCK);
    if !changes.iter().any(|change| is_lock(&change)) {
        return Ok(None);
    }
    let read = |package: &Package| -> Result<Result<Lock, String>, Error> {
        if !package.contents().contains(packages::LOCK) {
            return Ok(Ok(Lock::default()));
        }
        match package.contents().read(packages::LOCK, packages::MAX_LOCK, context) {
            Ok(bytes) => Ok(Lock::parse(&bytes).map_err(|problem| format!("`{}`: {problem}", packages::LOCK))),
            Err(error @ ContentsError::Size { .. }) => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        }
    };
    Ok(Some(match (read(a)?, read(b)?) {
        (Ok(a), Ok(b)) => Packages { problem: None, changes: packages::compare(&a, &b) },
        (Err(problem), _) | (_, Err(problem)) => Packages { problem: Some(problem), changes: Vec::new() },
    }))
}
