//! Looks for the signature of an open carton, and checks it as rules and caller ask (spec/signing.md, "Where signatures are").

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use carton_signing::{Bundle, SignedFiles, SigningIdentity, Trusted};

use super::Opening;
use crate::Error;
use crate::config::Config;
use crate::manifest::{Manifest, ManifestHash};
use crate::network::{Activity, Network, NetworkError, Part, Wanted};
use crate::package::Package;
use crate::place::Place;
use crate::source::{FileSource, Source};
use crate::trust::{SignatureStatus, TrustError, TrustRule, TrustSettings};

impl Package {
    /// Signs the carton: its MANIFEST, and so each of its files. Returns the bytes of the signature, which belong beside the carton,
    /// under its name and `.sig`; `None` for a bare model. No file is read.
    #[must_use]
    pub fn sign(&self, identity: &SigningIdentity) -> Option<Vec<u8>> {
        Some(identity.sign(&signed_files(self.contents().manifest()?)))
    }
}

/// What a signature of the carton covers.
fn signed_files(manifest: &Manifest) -> SignedFiles {
    let files = manifest.iter().map(|(path, digest)| (path, *digest.as_bytes()));
    SignedFiles::new(*manifest.hash().digest().as_bytes(), files)
}

/// Refuses a bare model where the rules require a signature.
pub(crate) fn refuse_bare(path: &Path, settings: &TrustSettings, config: &Config) -> Result<(), Error> {
    let place = Place::Path(path.to_path_buf());
    match Asked::of(&place, settings, config).is_required {
        true => Err(TrustError::Bare { path: path.to_path_buf() }.into()),
        false => Ok(()),
    }
}

/// Checks the signature of the carton at `place`, if rules or the caller ask for that. Returns what was found out; `None` if it was not
/// looked for.
pub(super) fn check(
    package: &Package,
    place: &Place,
    settings: &TrustSettings,
    config: &Config,
    opening: &Opening,
) -> Result<Option<SignatureStatus>, Error> {
    let asked = Asked::of(place, settings, config);
    if !asked.is_required && !settings.reported {
        return Ok(None);
    }
    let Some(manifest) = package.contents().manifest() else { return Ok(None) };
    let trusted = asked.trusted()?;
    if asked.is_required && trusted.is_empty() {
        return Err(TrustError::NoTrust { carton: place.to_string() }.into());
    }
    let search = Search { place, manifest, trusted, network: config.network(), opening };
    let status = match &settings.signature {
        Some(location) => search.at(location.place()?)?,
        None => search.beside()?,
    };
    if asked.is_required {
        let carton = place.to_string();
        match &status {
            SignatureStatus::Trusted { .. } => {}
            SignatureStatus::Unsigned { place } => {
                return Err(TrustError::Unsigned { carton, signature: place.clone() }.into());
            }
            SignatureStatus::Untrusted { place, reason, .. } => {
                return Err(TrustError::Refused { carton, signature: place.clone(), reason: reason.clone() }.into());
            }
        }
    }
    Ok(Some(status))
}

/// What is asked of a carton's signature.
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

/// A search for the signature of one carton.
struct Search<'a> {
    place: &'a Place,
    manifest: &'a Manifest,
    trusted: Trusted,
    network: Network,
    opening: &'a Opening,
}

impl Search<'_> {
    /// Looks beside the carton. The signature of a carton on a server is also in the cache, once it was accepted: it says the same of the
    /// same carton at any time.
    fn beside(&self) -> Result<SignatureStatus, Error> {
        let place = beside(self.place);
        if let (Place::Url(_), Some(cache)) = (&place, &self.opening.cache)
            && let Some(bytes) = cache.signature(&self.hash(), self.files().max_bundle_length())
            && let status @ SignatureStatus::Trusted { .. } = self.judge(&place, &bytes)
        {
            return Ok(status);
        }
        self.at(&place)
    }

    fn at(&self, place: &Place) -> Result<SignatureStatus, Error> {
        let limit = self.files().max_bundle_length();
        let bytes = match place {
            Place::Path(path) => read(path, limit)?,
            Place::Url(url) => {
                let part = Part::Whole;
                let wanted = Wanted { url: url.clone(), part, version: None, known: None, limit: limit as u64 };
                match self.network.read(wanted, &Activity::new(self.opening.context.cancel_token())) {
                    Ok(fetched) => Some(fetched.bytes),
                    Err(NetworkError::Status { status, .. }) if matches!(status.code(), 404 | 410) => None,
                    // Without the network, a signature that is not in the cache is missing.
                    Err(NetworkError::Offline { .. }) => None,
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let Some(bytes) = bytes else { return Ok(SignatureStatus::Unsigned { place: place.to_string() }) };
        let status = self.judge(place, &bytes);
        if let (Place::Url(_), SignatureStatus::Trusted { .. }, Some(cache)) =
            (self.place, &status, &self.opening.cache)
            && let Err(error) = cache.remember_signature(&self.hash(), &bytes)
        {
            tracing::debug!(%error, "cannot keep the signature");
        }
        Ok(status)
    }

    /// Verifies a signature that was read from `place`.
    fn judge(&self, place: &Place, bytes: &[u8]) -> SignatureStatus {
        let files = self.files();
        let place = place.to_string();
        let bundle = match Bundle::parse(bytes, files.max_bundle_length()) {
            Ok(bundle) => bundle,
            Err(error) => {
                let reason = error.to_string();
                return SignatureStatus::Untrusted { place, claimed: None, reason, is_broken: true };
            }
        };
        match bundle.verify(&files, &self.trusted, jiff::Timestamp::now()) {
            Ok(signer) => SignatureStatus::Trusted { place, signer },
            Err(error) => {
                let is_broken = error.is_broken();
                let (claimed, reason) = (Some(bundle.claimed_signer()), error.to_string());
                SignatureStatus::Untrusted { place, claimed, reason, is_broken }
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

/// Where the signature of a carton on this machine is by default: under its name and `.sig`.
///
/// ```
/// use carton_core::trust::signature_path;
///
/// assert_eq!(signature_path("models/digits.carton").to_str(), Some("models/digits.carton.sig"));
/// assert_eq!(signature_path("unpacked/").to_str(), Some("unpacked.sig"));
/// ```
#[must_use]
pub fn signature_path(carton: impl AsRef<Path>) -> PathBuf {
    let path = carton.as_ref();
    // A path that ends with a slash, or is `.`, has no name to add to.
    let path: PathBuf = match path.file_name() {
        Some(_) => path.components().collect(),
        None => path.canonicalize().unwrap_or_else(|_| path.to_path_buf()),
    };
    let mut name = OsString::from(path);
    name.push(".sig");
    name.into()
}

/// Where the signature of a carton is by default: under its name and `.sig`.
fn beside(place: &Place) -> Place {
    match place {
        Place::Path(path) => Place::Path(signature_path(path)),
        Place::Url(url) => Place::Url(url.with_suffix(".sig")),
    }
}

/// The bytes of a signature on this machine; `None` if there is none.
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
