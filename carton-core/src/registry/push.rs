//! Pushes a carton to a registry.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::future::IntoFuture;
use std::sync::Arc;

use carton_format::archive::Compression;
use carton_format::context::Context;
use carton_format::digest::{Sha256Digest, hash_all};
use carton_format::manifest::ManifestHash;
use carton_format::progress::Stage;
use carton_network::http::Activity;
use carton_network::oci::manifest::{self, About, CartonManifest, Descriptor, IMAGE_MANIFEST, LayerFile};
use carton_network::oci::{Client, OciError, RegistryAccess, RegistryConfig, is_repository, oci_digest};
use carton_tensor::parallel::par_map;

use super::Reference;
use super::upload::{Blob, Outcome, upload};
use crate::blocking::{Awaited, run_blocking};
use crate::cache::Cache;
use crate::contents::{Contents, ContentsError};
use crate::open::{self, Open};
use crate::package::{self, Package};
use crate::settings::{OpenSettings, open_setters};
use crate::shrink::{DEFAULT_MIN_SIZE, may_be_left_out};
use crate::{Carton, Error, Location};

/// How many blobs are sent at once.
const N_UPLOADS: usize = 4;

/// The most repositories that blobs are taken over from. A token is asked for that names them all.
const MAX_SOURCES: usize = 8;

/// A carton to be pushed. Made by [`Carton::push`]; setters configure it, and `.await` pushes it.
#[derive(Clone, Debug)]
#[must_use = "nothing is pushed until this is awaited"]
pub struct Push {
    location: Location,
    reference: Reference,
    min_size: u64,
    mount_from: Vec<String>,
    open: OpenSettings,
}

/// The result of [`Carton::push`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {
    /// The name of the artifact with its digest, which always means this artifact.
    pub reference: Reference,
    /// The hash of the carton.
    pub manifest_sha256: ManifestHash,
    /// How many blobs of the artifact there are: its large files, and one for all others.
    pub n_blobs: usize,
    /// The bytes of the blobs that were sent.
    pub sent: u64,
    /// The bytes of the blobs that the registry took over from other repositories.
    pub mounted: u64,
    /// The bytes of the blobs that the repository had already.
    pub present: u64,
    /// Whether a bundle of the carton was pushed too.
    pub signed: bool,
}

impl Push {
    open_setters!(open);

    /// Sets the size in bytes from which a file is a blob of its own. The default is [`DEFAULT_MIN_SIZE`].
    pub fn min_size(mut self, min_size: u64) -> Self {
        self.min_size = min_size;
        self
    }

    /// Takes blobs over from this repository of the same registry, instead of sending them. The repositories that this machine has
    /// pushed to or pulled from are tried anyway.
    pub fn mount_from(mut self, repository: impl Into<String>) -> Self {
        self.mount_from.push(repository.into());
        self
    }

    async fn push(self) -> Result<Pushed, Error> {
        let Self { location, reference, min_size, mount_from, open } = self;
        // A registry would refuse that only after it got everything.
        if reference.digest().is_some() {
            return Err(OciError::DigestGiven { reference: reference.to_string() }.into());
        }
        if let Some(repository) = mount_from.iter().find(|repository| !is_repository(repository)) {
            return Err(OciError::NotARepository { repository: repository.clone() }.into());
        }
        let progress = open.operation.progress().cloned();
        let config = open.operation.config()?;
        let bundle = open.trust.bundle.clone();
        let package = Open::new(location.clone(), open).await?;
        run_blocking(progress.as_ref(), move |context| {
            let network = config.network();
            let activity = Activity::new(context.cancel_token());
            let cache = open::cache(&config).inspect_err(|error| tracing::debug!(%error, "there is no cache")).ok();
            let places = Places::find(cache.as_ref(), &reference, &location, mount_from);
            let servers: &[RegistryConfig] = &config.registries;
            let client =
                Client::new(&network, servers, &reference, RegistryAccess::Write, &places.repositories, &activity)?;
            let (package, reference, client, cache) = (&package, &reference, &client, cache.as_deref());
            let push = Pushing { package, reference, client, places, cache, context: &context };
            let named = bundle.as_ref().map(|bundle| bundle.place()).transpose()?;
            let bundles = open::bundles_to_push(package, location.place()?, named, &config, &context)?;
            let pushed = push.run(min_size, &bundles)?;
            if let Some(cache) = cache {
                let digests = large_files(package.contents(), min_size).into_iter().map(|file| file.digest);
                if let Err(error) = cache.blob_places(reference.host()).remember(reference.repository(), digests) {
                    tracing::debug!(%error, "cannot remember which repository has which blobs");
                }
            }
            Ok(pushed)
        })
        .await
    }
}

impl IntoFuture for Push {
    type Output = Result<Pushed, Error>;
    type IntoFuture = Awaited<'static, Pushed>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.push())
    }
}

impl Carton {
    /// Pushes the carton at `location` to a registry, with its bundle if there is one beside it. What the registry has already is not
    /// sent. The tag is set last: until then it means what it meant before.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::Carton;
    /// let pushed = Carton::push("digits.carton", "oci://registry.example.com/team/digits:1.0".parse()?).await?;
    /// println!("{}", pushed.reference);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The carton cannot be read, or a file does not match MANIFEST; the registry cannot be reached, refuses the login or the carton.
    pub fn push(location: impl Into<Location>, reference: Reference) -> Push {
        let (location, open) = (location.into(), OpenSettings::default());
        Push { location, reference, min_size: DEFAULT_MIN_SIZE, mount_from: Vec::new(), open }
    }
}

/// The repositories that may have blobs, and which blob is known to be where.
struct Places {
    repositories: Vec<String>,
    known: BTreeMap<Sha256Digest, String>,
    /// The repositories that were named. They are tried for each blob.
    named: Vec<String>,
}

impl Places {
    fn find(cache: Option<&Arc<Cache>>, reference: &Reference, location: &Location, given: Vec<String>) -> Self {
        let is_other = |repository: &String| repository != reference.repository();
        let source = location.url().and_then(|url| Reference::from_url(url).ok());
        let source = source.filter(|source| source.host() == reference.host());
        let named: Vec<String> =
            given.into_iter().chain(source.map(|source| source.repository().to_owned())).filter(is_other).collect();
        let mut known = BTreeMap::new();
        let mut repositories = named.clone();
        for (digest, repository) in cache.map(|cache| cache.blob_places(reference.host()).known()).unwrap_or_default() {
            if !is_other(&repository) || known.contains_key(&digest) {
                continue;
            }
            if !repositories.contains(&repository) {
                if repositories.len() >= MAX_SOURCES {
                    continue;
                }
                repositories.push(repository.clone());
            }
            known.insert(digest, repository);
        }
        Self { repositories, known, named }
    }

    /// The repositories to take a blob over from, the likeliest first.
    fn of(&self, digest: &Sha256Digest) -> Vec<&str> {
        let known = self.known.get(digest);
        let others = self.named.iter().filter(|named| Some(*named) != known);
        known.into_iter().chain(others).map(String::as_str).collect()
    }
}

struct Pushing<'a> {
    package: &'a Package,
    reference: &'a Reference,
    client: &'a Client,
    places: Places,
    cache: Option<&'a Cache>,
    context: &'a Context,
}

/// The blobs that were sent, and those that were not, in bytes.
#[derive(Default)]
struct Sum {
    sent: u64,
    mounted: u64,
    present: u64,
}

impl Sum {
    fn add(&mut self, outcome: Outcome, size: u64) {
        match outcome {
            Outcome::Sent => self.sent = self.sent.saturating_add(size),
            Outcome::Mounted => self.mounted = self.mounted.saturating_add(size),
            Outcome::Present => self.present = self.present.saturating_add(size),
        }
    }
}

impl Pushing<'_> {
    fn run(&self, min_size: u64, bundles: &[Vec<u8>]) -> Result<Pushed, Error> {
        let contents = self.package.contents();
        let manifest_sha256 =
            contents.manifest_hash().ok_or_else(|| ContentsError::NoManifest { location: contents.location() })?;
        let files = large_files(contents, min_size);
        let about = self.about();
        // The length of the manifest does not depend on the digest, and hardly on the size, of the small layer.
        self.check_length(
            CartonManifest::write(&manifest_sha256, (manifest_sha256.digest(), 0), &files, &about).0.len(),
        )?;
        let mut sum = Sum::default();
        self.push_files(&files, &mut sum)?;
        let small = self.push_small(&files, &mut sum)?;
        let (bytes, config) = CartonManifest::write(&manifest_sha256, small, &files, &about);
        self.check_length(bytes.len())?;
        self.client.put_small_blob(&config)?;
        let digest = Sha256Digest::of(&bytes);
        if !bundles.is_empty() {
            // The bundles come before the tag, so that a reader of the tag always finds them.
            self.client.put_manifest(&oci_digest(&digest), IMAGE_MANIFEST, &bytes)?;
            for bundle in bundles {
                self.push_bundle(bundle, &Descriptor::of_manifest(&bytes))?;
            }
        }
        self.client.put_manifest(&self.reference.name(), IMAGE_MANIFEST, &bytes)?;
        let signed = !bundles.is_empty();
        let n_blobs = files.iter().map(|file| file.digest).collect::<BTreeSet<_>>().len() + 1;
        let Sum { sent, mounted, present } = sum;
        let reference = self.reference.with_digest(digest);
        Ok(Pushed { reference, manifest_sha256, n_blobs, sent, mounted, present, signed })
    }

    /// Sends the large files that the repository lacks.
    fn push_files(&self, files: &[LayerFile], sum: &mut Sum) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let files: Vec<&LayerFile> = files.iter().filter(|file| seen.insert(file.digest)).collect();
        let is_there = par_map(files.len(), N_UPLOADS, || (), |(), at| self.client.has_blob(&files[at].digest))?;
        let (there, missing): (Vec<_>, Vec<_>) = files.into_iter().zip(is_there).partition(|(_, is_there)| *is_there);
        there.iter().for_each(|(file, _)| sum.add(Outcome::Present, file.size));
        let missing: Vec<&LayerFile> = missing.into_iter().map(|(file, _)| file).collect();
        let contents = self.package.contents();
        let paths: BTreeSet<&str> = missing.iter().map(|file| file.path.as_str()).collect();
        contents.fetch(|path| paths.contains(path), self.context)?;
        let meter =
            self.context.meter(Stage::Upload, missing.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size)));
        let outcomes = par_map(
            missing.len(),
            N_UPLOADS,
            || (),
            |(), at| {
                let file = missing[at];
                let open = || Ok(contents.reader(&file.path, self.context)? as Box<dyn std::io::Read + Send>);
                let read_error = |error| ContentsError::from_read(error, &file.path).into();
                let blob = Blob { digest: file.digest, size: file.size, open: &open, read_error: &read_error };
                upload(self.client, &blob, &self.places.of(&file.digest), &meter)
            },
        )?;
        for (file, outcome) in missing.iter().zip(outcomes) {
            sum.add(outcome, file.size);
        }
        Ok(())
    }

    /// Sends the carton without its large files. Returns the digest and the size of the blob.
    fn push_small(&self, files: &[LayerFile], sum: &mut Sum) -> Result<(Sha256Digest, u64), Error> {
        let contents = self.package.contents();
        // In the cache, which sweeps what a process that died has left there, unless the cache cannot be written.
        let cached = self.cache.and_then(|cache| cache.temporary_folder().ok());
        let temporary;
        let folder = if let Some(cached) = &cached {
            cached.path()
        } else {
            temporary = tempfile::tempdir().map_err(Error::io("make a folder in", &std::env::temp_dir()))?;
            temporary.path()
        };
        let path = folder.join("small.carton");
        let linked = contents.files().into_iter().filter(|file| file.linked).map(|file| file.path);
        let left_out: BTreeSet<String> = files.iter().map(|file| file.path.clone()).chain(linked).collect();
        contents.fetch(|path| !left_out.contains(path), self.context)?;
        package::rewrite(contents, &left_out, contents.links(), &path, Compression::Auto, self.context)?;
        let mut file = File::open(&path).map_err(Error::io("open", &path))?;
        let read_error = |error| Error::io("read", &path)(error);
        let digest = hash_all(&mut file, read_error, |_| Ok(()))?;
        let size = file.metadata().map_err(Error::io("inspect", &path))?.len();
        if self.client.has_blob(&digest)? {
            sum.add(Outcome::Present, size);
            return Ok((digest, size));
        }
        let meter = self.context.meter(Stage::Upload, size);
        let open =
            || Ok(Box::new(File::open(&path).map_err(Error::io("open", &path))?) as Box<dyn std::io::Read + Send>);
        let blob = Blob { digest, size, open: &open, read_error: &read_error };
        sum.add(upload(self.client, &blob, &[], &meter)?, size);
        Ok((digest, size))
    }

    /// Sends a bundle, which refers to the manifest `subject`.
    fn push_bundle(&self, bundle: &[u8], subject: &Descriptor) -> Result<(), Error> {
        self.client.put_small_blob(bundle)?;
        self.client.put_small_blob(manifest::EMPTY_CONFIG)?;
        let manifest = manifest::write_bundle(subject, bundle);
        let name = oci_digest(&Sha256Digest::of(&manifest));
        if !self.client.put_manifest(&name, IMAGE_MANIFEST, &manifest)? {
            self.client.tag_referrer(&subject.digest, &manifest)?;
        }
        Ok(())
    }

    fn check_length(&self, found: usize) -> Result<(), OciError> {
        let (found, limit) = (found as u64, manifest::MAX_LENGTH);
        match found > limit {
            true => Err(OciError::TooManyFiles { reference: self.reference.to_string(), found, limit }),
            false => Ok(()),
        }
    }

    fn about(&self) -> About {
        let metadata = self.package.metadata();
        let text = |text: Option<&str>| text.map(str::to_owned);
        About {
            name: text(metadata.model_name()),
            description: text(metadata.short_description()),
            license: text(metadata.license()),
            runner: metadata.runner().runner_name.clone(),
        }
    }
}

/// The files of a carton that become blobs of their own.
fn large_files(contents: &Contents, min_size: u64) -> Vec<LayerFile> {
    let is_large = |file: &crate::package::FileInfo| {
        file.symlink.is_none() && !file.linked && may_be_left_out(&file.path) && file.size >= Some(min_size.max(1))
    };
    let files = contents.files().into_iter().filter(is_large);
    files.filter_map(|file| Some(LayerFile { path: file.path, digest: file.sha256?, size: file.size? })).collect()
}
