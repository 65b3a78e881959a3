//! Looks for the bundle of an open carton, and checks it as rules and caller ask (spec/signing.md, "Where bundles are").

use std::io;
use std::path::Path;

use carton_format::context::Context;
use carton_format::error_kind::ErrorKind;
use carton_format::manifest::{Manifest, ManifestHash};
use carton_format::source::{FileSource, Source};
use carton_format::url::Url;
use carton_network::http::{Activity, NetworkError, Part, Wanted};
use carton_network::place::Place;
use carton_signing::{Bundle, SignedFiles, SigningIdentity, Trusted};

use super::Opening;
use crate::Error;
use crate::config::Config;
use crate::package::Package;
use crate::trust::{SigningStatus, TrustError, TrustRule, TrustSettings, bundle_path};

impl Package {
    /// Signs the carton: its MANIFEST, and so each of its files. Returns the bytes of the bundle, which belong beside the carton,
    /// under its name and `.sig`; `None` for a bare model. No file is read.
    #[must_use]
    pub fn sign(&self, identity: &SigningIdentity) -> Option<Vec<u8>> {
        Some(identity.sign(&signed_files(self.contents().manifest()?)))
    }
}

/// A bundle of a carton that was opened from the registry at `url`: the one that was accepted for it, or else the last one there. `None` if
/// there is none. A registry that cannot be asked for bundles is no error: the carton was opened without.
pub(crate) fn bundle_in_registry(
    package: &Package,
    url: &Url,
    config: &Config,
    context: &Context,
) -> Result<Option<Vec<u8>>, Error> {
    let Some(manifest) = package.contents().manifest() else { return Ok(None) };
    let (limit, hash) = (signed_files(manifest).max_bundle_length(), manifest.hash());
    let cache = super::cache(config).ok();
    if matches!(package.signing_status(), Some(SigningStatus::Trusted { .. }))
        && let Some(accepted) = cache.as_ref().and_then(|cache| cache.carton(&hash).bundle(limit))
    {
        return Ok(Some(accepted));
    }
    let opening = Opening { cache, context: context.clone() };
    match super::registry::bundles(url, hash, &config.network(), &config.registries, limit as u64, &opening) {
        Ok(found) => Ok(found.into_iter().next_back()),
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
        Err(error) => {
            tracing::warn!("no signing bundle is pulled: {}", carton_format::causes::in_one_line(&error));
            Ok(None)
        }
    }
}

/// The bundles that go along when a carton is pushed: the file that the caller names, or else what is beside the carton on this machine,
/// or in the registry that it is in.
///
/// # Errors
/// The named file is missing or too large.
pub(crate) fn bundles_to_push(
    package: &Package,
    place: &Place,
    named: Option<&Place>,
    config: &Config,
    context: &Context,
) -> Result<Vec<Vec<u8>>, Error> {
    let Some(manifest) = package.contents().manifest() else { return Ok(Vec::new()) };
    let limit = signed_files(manifest).max_bundle_length();
    let read_within = |path: &Path| match read(path, limit)? {
        Some(bytes) if bytes.len() > limit => {
            let found = format!("more than {limit} bytes");
            Err(Error::from(TrustError::Refused {
                carton: place.to_string(),
                bundle: path.display().to_string(),
                reason: found,
            }))
        }
        bytes => Ok(bytes),
    };
    match (named, place) {
        (Some(Place::Path(path)), _) => {
            let missing = || Error::io("open", path)(io::ErrorKind::NotFound.into());
            Ok(vec![read_within(path)?.ok_or_else(missing)?])
        }
        (None, Place::Path(path)) => Ok(read_within(&bundle_path(path))?.into_iter().collect()),
        (_, Place::Oci(url)) => Ok(bundle_in_registry(package, url, config, context)?.into_iter().collect()),
        // The bundle of a carton at another URL was read if somebody is trusted, and is in the cache then.
        _ => {
            let is_trusted = matches!(package.signing_status(), Some(SigningStatus::Trusted { .. }));
            let cache = super::cache(config).ok().filter(|_| is_trusted);
            Ok(cache.and_then(|cache| cache.carton(&manifest.hash()).bundle(limit)).into_iter().collect())
        }
    }
}

/// What a bundle of the carton covers.
fn signed_files(manifest: &Manifest) -> SignedFiles {
    let files = manifest.iter().map(|(path, digest)| (path, *digest.as_bytes()));
    SignedFiles::new(*manifest.hash().digest().as_bytes(), files)
}

/// Refuses a bare model where the rules require a bundle.
pub(crate) fn refuse_bare(path: &Path, settings: &TrustSettings, config: &Config) -> Result<(), Error> {
    let place = Place::Path(path.to_path_buf());
    match Asked::of(&place, settings, config).is_required {
        true => Err(TrustError::Bare { path: path.to_path_buf() }.into()),
        false => Ok(()),
    }
}

/// Checks the bundle of the carton at `place`, if rules or the caller ask for that. Returns what was found out; `None` if it was not
/// looked for.
pub(super) fn check(
    package: &Package,
    place: CartonPlace<'_>,
    settings: &TrustSettings,
    config: &Config,
    opening: &Opening,
) -> Result<Option<SigningStatus>, Error> {
    let asked = Asked::of(place.named, settings, config);
    if !asked.is_required && !settings.reported {
        return Ok(None);
    }
    let Some(manifest) = package.contents().manifest() else { return Ok(None) };
    let trusted = asked.trusted()?;
    if asked.is_required && trusted.is_empty() {
        return Err(TrustError::NoTrust { carton: place.named.to_string() }.into());
    }
    // The bundle in an object store needs a signed URL of its own.
    let is_object = matches!(place.named, Place::ObjectStore(_));
    let place_of_carton = if is_object { place.named } else { place.found };
    let search = Search { place: place_of_carton, manifest, trusted, config, opening };
    let status = match &settings.bundle {
        Some(location) => search.at(location.place()?)?,
        None => match search.beside() {
            // The bundle was looked for only to tell of it.
            Err(error) if !asked.is_required && error.kind() == ErrorKind::Network => {
                tracing::warn!(
                    "whether the carton is signed is unknown: {}",
                    carton_format::causes::in_one_line(&error)
                );
                return Ok(None);
            }
            status => status?,
        },
    };
    if asked.is_required {
        let carton = place.named.to_string();
        match &status {
            SigningStatus::Trusted { .. } => {}
            SigningStatus::Unsigned { place } => {
                return Err(TrustError::Unsigned { carton, bundle: place.clone() }.into());
            }
            SigningStatus::Untrusted { place, reason, .. } => {
                return Err(TrustError::Refused { carton, bundle: place.clone(), reason: reason.clone() }.into());
            }
        }
    }
    Ok(Some(status))
}

/// Where a carton is.
#[derive(Clone, Copy)]
pub(super) struct CartonPlace<'a> {
    /// The place that the caller named, which rules are for.
    pub(super) named: &'a Place,
    /// The place where the carton was found, beside which its bundle is.
    pub(super) found: &'a Place,
}

/// What is asked of a carton's bundle.
struct Asked<'a> {
    settings: &'a TrustSettings,
    /// The first rule that is for the carton's place.
    rule: Option<&'a TrustRule>,
    is_required: bool,
}

impl<'a> Asked<'a> {
    fn of(place: &Place, settings: &'a TrustSettings, config: &'a Config) -> Self {
        let rule = config.trust.iter().find(|rule| rule.applies_to(place));
        let by_default = !settings.keys.is_empty() || rule.is_some_and(|rule| rule.required);
        Self { settings, rule, is_required: settings.required.unwrap_or(by_default) }
    }

    /// Who may sign: the caller's keys, or else those that the rule trusts.
    fn trusted(&self) -> Result<Trusted, TrustError> {
        match (self.settings.keys.as_slice(), self.rule) {
            ([], Some(rule)) => rule.trusted(),
            (keys, _) => Ok(Trusted { keys: keys.to_vec(), ..Trusted::default() }),
        }
    }
}

/// A search for the bundle of one carton.
struct Search<'a> {
    place: &'a Place,
    manifest: &'a Manifest,
    trusted: Trusted,
    config: &'a Config,
    opening: &'a Opening,
}

impl Search<'_> {
    /// Looks beside the carton. The bundle of a carton on a server is also in the cache, once it was accepted: it says the same of the
    /// same carton at any time.
    fn beside(&self) -> Result<SigningStatus, Error> {
        let place = beside(self.place);
        if let (Some(_), Some(cache)) = (place.url(), &self.opening.cache)
            && let Some(bytes) = cache.carton(&self.hash()).bundle(self.files().max_bundle_length())
            && let status @ SigningStatus::Trusted { .. } = self.judge(&place, &bytes)
        {
            return Ok(status);
        }
        self.at(&place)
    }

    fn at(&self, place: &Place) -> Result<SigningStatus, Error> {
        let limit = self.files().max_bundle_length();
        let found = match &*super::find(place, None, self.config, self.opening)? {
            Place::Path(path) => read(path, limit)?.into_iter().collect(),
            Place::Oci(url) => self.in_registry(url, limit as u64)?,
            Place::Web(url) | Place::Hub(url) | Place::ObjectStore(url) => {
                let part = Part::Whole;
                let wanted = Wanted { url: url.clone(), part, version: None, known: None, limit: limit as u64 };
                match self.config.network().read(wanted, &Activity::new(self.opening.context.cancel_token())) {
                    Ok(fetched) => vec![fetched.bytes],
                    Err(NetworkError::Status { status, .. }) if matches!(status.code(), 404 | 410) => Vec::new(),
                    // Without the network, a bundle that is not in the cache is missing.
                    Err(NetworkError::Offline { .. }) => Vec::new(),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        // Several may have signed a carton in a registry. The first that is trusted counts.
        let mut last = SigningStatus::Unsigned { place: place.to_string() };
        for bytes in found {
            let status = self.judge(place, &bytes);
            if !matches!(status, SigningStatus::Trusted { .. }) {
                last = status;
                continue;
            }
            if let (Some(_), Some(cache)) = (self.place.url(), &self.opening.cache)
                && let Err(error) = cache.carton(&self.hash()).remember_bundle(&bytes)
            {
                tracing::debug!(%error, "cannot keep the bundle");
            }
            return Ok(status);
        }
        Ok(last)
    }

    /// The bundles that refer to a carton in a registry.
    fn in_registry(&self, url: &Url, limit: u64) -> Result<Vec<Vec<u8>>, Error> {
        super::registry::bundles(url, self.hash(), &self.config.network(), &self.config.registries, limit, self.opening)
    }

    /// Verifies a bundle that was read from `place`.
    fn judge(&self, place: &Place, bytes: &[u8]) -> SigningStatus {
        let files = self.files();
        let place = place.to_string();
        let bundle = match Bundle::parse(bytes, files.max_bundle_length()) {
            Ok(bundle) => bundle,
            Err(error) => {
                let reason = error.to_string();
                return SigningStatus::Untrusted { place, claimed: None, reason, is_broken: true };
            }
        };
        match bundle.verify(&files, &self.trusted, jiff::Timestamp::now()) {
            Ok(signer) => SigningStatus::Trusted { place, signer },
            Err(error) => {
                let is_broken = error.is_broken();
                let (claimed, reason) = (Some(bundle.claimed_signer()), error.to_string());
                SigningStatus::Untrusted { place, claimed, reason, is_broken }
            }
        }
    }

    fn files(&self) -> SignedFiles {
        signed_files(self.manifest)
    }

    fn hash(&self) -> ManifestHash {
        self.manifest.hash()
    }
}

/// Where the bundle of a carton is by default: under its name and `.sig`, or in its registry.
fn beside(place: &Place) -> Place {
    match place {
        Place::Path(path) => Place::Path(bundle_path(path)),
        // What refers to the artifact is found by the artifact's own name.
        Place::Oci(url) => Place::Oci(url.clone()),
        Place::Web(url) => Place::Web(url.with_suffix(".sig")),
        Place::Hub(url) => Place::Hub(url.with_suffix(".sig")),
        Place::ObjectStore(url) => Place::ObjectStore(url.with_suffix(".sig")),
    }
}

/// The bytes of a bundle on this machine; `None` if there is none.
fn read(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Error> {
    let file = match FileSource::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    // One byte more than the limit shows that the file is too large.
    let length = usize::try_from(file.len()).unwrap_or(usize::MAX).min(limit + 1);
    let mut bytes = vec![0; length];
    file.read_at(0, &mut bytes).map_err(Error::io("read", path))?;
    Ok(Some(bytes))
}
