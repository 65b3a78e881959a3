//! The rules of the configuration: who may sign the cartons of which places.

use std::path::{Component, Path, PathBuf};

use carton_network::oci::Reference;
use carton_network::place::Place;
use carton_signing::{Authority, Certificate, KeylessAuthority, PublicKey, SigstoreRoot, Trusted};
use glob::{MatchOptions, Pattern};

use super::TrustError;

/// A rule of the configuration: `[[trust]]`. Files are read when a carton of one of its places is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustRule {
    /// Patterns of the places whose cartons the rule is for, such as `https://models.example.com/**` or `/srv/models/**`. `*` stands for
    /// any characters but `/`, `**` for any folders.
    pub places: Vec<String>,
    /// Files of public keys (PEM) that may sign.
    pub keys: Vec<PathBuf>,
    /// Files of certificates (PEM) that chains may lead to.
    pub certificates: Vec<PathBuf>,
    /// The file of a trusted root of Sigstore (JSON), which confirms keyless bundles.
    pub trusted_root: Option<PathBuf>,
    /// The provider of the identities with keyless bundles, such as `https://token.actions.githubusercontent.com`. Without it, no keyless
    /// bundle is accepted: two providers can know different people by the same name.
    pub issuer: Option<String>,
    /// The identities that may sign with certificates, or keyless. `*` stands for any characters.
    pub identities: Vec<String>,
    /// Whether cartons without a bundle of these are refused.
    pub required: bool,
}

/// What one operation asks of a carton's bundle.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustSettings {
    /// Keys that may sign, in place of those of the configuration. A bundle by one of them is required.
    pub(crate) keys: Vec<PublicKey>,
    /// The bundle; beside the carton by default.
    pub(crate) bundle: Option<crate::Location>,
    /// Whether a trusted bundle is required, whatever the rule says; `None` to leave that to the rule.
    pub(crate) required: Option<bool>,
    /// Whether a bundle is looked for even where none is required.
    pub(crate) reported: bool,
}

impl TrustRule {
    /// A rule for cartons of these places, which requires a bundle and trusts no signer yet.
    #[must_use]
    pub fn new(places: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            places: places.into_iter().map(Into::into).collect(),
            keys: Vec::new(),
            certificates: Vec::new(),
            trusted_root: None,
            issuer: None,
            identities: Vec::new(),
            required: true,
        }
    }

    /// Whether the rule is for a carton at `place`.
    pub(crate) fn applies_to(&self, place: &Place) -> bool {
        let options =
            MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
        let names = names(place);
        let patterns = self.places.iter().filter_map(|text| Pattern::new(&normalized(text)).ok());
        patterns.into_iter().any(|pattern| names.iter().any(|name| pattern.matches_with(name, options)))
    }

    /// Reads the files of the rule.
    pub(crate) fn trusted(&self) -> Result<Trusted, TrustError> {
        let mut trusted = Trusted::default();
        for path in &self.keys {
            let key = PublicKey::from_pem(&read(path)?);
            trusted.keys.push(key.map_err(|source| TrustError::Key { path: path.clone(), source })?);
        }
        let mut roots = Vec::new();
        for path in &self.certificates {
            let certificates = Certificate::from_pem(&read(path)?);
            roots.extend(certificates.map_err(|source| TrustError::Certificates { path: path.clone(), source })?);
        }
        if !roots.is_empty() {
            trusted.authorities.push(Authority::new(roots, self.identities.clone()));
        }
        if let (Some(path), Some(issuer)) = (&self.trusted_root, &self.issuer) {
            let root = SigstoreRoot::from_json(&read(path)?)
                .map_err(|source| TrustError::TrustedRoot { path: path.clone(), source })?;
            trusted.keyless.push(KeylessAuthority::new(root, issuer, self.identities.clone()));
        }
        Ok(trusted)
    }
}

fn read(path: &Path) -> Result<String, TrustError> {
    std::fs::read_to_string(path).map_err(|source| TrustError::File { path: path.to_path_buf(), source })
}

/// Whether text is a pattern of places; the reason if not.
pub(crate) fn check_pattern(text: &str) -> Result<(), String> {
    match Pattern::new(&normalized(text)) {
        Ok(_) if text.contains("://") || text.starts_with(['/', '*']) => Ok(()),
        Ok(_) => Err("expected a URL or an absolute path, with `*` and `**`".to_owned()),
        Err(error) => Err(error.msg.to_owned()),
    }
}

/// The pattern in the form of [`names`]: hosts in lower case, and brackets of addresses taken literally.
fn normalized(pattern: &str) -> String {
    let Some((scheme, rest)) = pattern.split_once("://") else {
        return if pattern.starts_with('/') { format!("file://{pattern}") } else { pattern.to_owned() };
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let host: String =
        host.to_ascii_lowercase().chars().map(|c| if c == '[' { "[[]".into() } else { c.to_string() }).collect();
    format!("{}://{host}{path}", scheme.to_ascii_lowercase())
}

/// The names by which rules know a place. A URL has no user, query or fragment, and its path both as it was given and as servers
/// may read it: decoded, and then without empty segments and `..`, where a backslash is a slash too. A path is absolute, as it was given and with its symlinks followed.
fn names(place: &Place) -> Vec<String> {
    match place {
        // The name of an artifact with its tag or digest, and without them: a rule for a repository is for all in it.
        Place::Oci(url) => Reference::from_url(url).map_or_else(
            |_| Vec::new(),
            |reference| {
                let repository = format!("oci://{}/{}", reference.host(), reference.repository());
                vec![reference.to_string(), repository]
            },
        ),
        Place::Web(url) | Place::Hub(url) | Place::ObjectStore(url) => {
            let whole = url.expose();
            let origin = match whole.origin() {
                // The standard knows the origins of web URLs alone.
                url::Origin::Opaque(_) => format!("{}://{}", whole.scheme(), whole.host_str().unwrap_or_default()),
                origin => origin.ascii_serialization(),
            };
            vec![format!("{origin}{}", whole.path()), format!("{origin}/{}", decoded_path(whole.path()))]
        }
        Place::Path(path) => {
            let given = std::path::absolute(path).ok().map(|path| without_parents(&path));
            let real = std::fs::canonicalize(path).ok();
            given.into_iter().chain(real).map(|path| format!("file://{}", path.display())).collect()
        }
    }
}

fn decoded_path(path: &str) -> String {
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let mut segments = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    segments.join("/")
}

/// An absolute path without `.` and `..`, as its text says.
fn without_parents(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            component => path.push(component),
        }
        path
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_rule_is_for_the_places_of_its_patterns() {
        let check = |pattern: &str, place: &str, expected: bool| {
            let rule = TrustRule::new([pattern]);
            assert_eq!(rule.applies_to(&Place::parse(place).unwrap()), expected, "{pattern} {place}");
            assert!(check_pattern(pattern).is_ok(), "{pattern}");
        };
        check("https://Models.example.com/**", "https://me:pw@MODELS.example.com:443/a?sig=1", true);
        check("https://models.example.com/**", "http://models.example.com/a", false);
        check("https://models.example.com/**", "https://models.example.com.evil.org/a", false);
        check("https://models.example.com/**", "https://models.example.com:8443/a", false);
        check("https://models.example.com/team/*", "https://models.example.com/team/a/b", false);
        check("https://models.example.com/team/**", "https://models.example.com/x/../team/a", true);
        check("https://models.example.com/team/**", "https://models.example.com/%74eam/a", true);
        check("https://models.example.com/team/**", "https://models.example.com//team//a", true);
        check("https://models.example.com/team/**", "https://models.example.com./team/a", true);
        for escaped in ["x/..%2fteam/a", "x/%2e%2e%2Fteam/a", "x%5c..%5cteam/a", "%2e/team/a", "..%2f..%2fteam%2fa"] {
            check("https://models.example.com/team/**", &format!("https://models.example.com/{escaped}"), true);
        }
        check("oci://example.com/team/**", "oci://example.com./team/model:1", true);
        check("oci://example.com:5000/**", "oci://EXAMPLE.com.:5000/team/model:1", true);
        check("http://[::1]:8080/**", "http://[::1]:8080/a", true);
        check("https://*.example.com/**", "https://a.example.com/b", true);
        check("https://*.example.com/**", "https://a.evil.org/.example.com/b", false);
        check("oci://Example.com/team/**", "oci://example.com/team/model:1", true);
        check("oci://example.com/team/model", "oci://example.com/team/model:1", true);
        check("oci://example.com/team/model", "oci://example.com/team/model2:1", false);
        check("oci://example.com/team/model:1", "oci://example.com/team/model:2", false);
        check("hf://team/**", "hf://team/model@v1/a.carton", true);
        check("hf://team/model/**", "hf://team/model2/a.carton", false);
        check("https://example.com/**", "oci://example.com/team/model:1", false);
        check("/srv/**", "/srv/a.carton", true);
        check("file:///srv/**", "file:///srv/a%20b.carton", true);
        check("/srv/**", "/srv/../home/a.carton", false);
        check("/srv/**", "/home/../srv/a.carton", true);
        check("**", "https://a/b", true);
        check("**", "/a", true);
    }

    #[test]
    fn a_symlink_has_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::write(folder.join("real.carton"), "").unwrap();
        std::os::unix::fs::symlink("real.carton", folder.join("link.carton")).unwrap();
        let link = Place::Path(folder.join("link.carton"));
        for name in ["real", "link"] {
            assert!(TrustRule::new([format!("{}/{name}.*", folder.display())]).applies_to(&link), "{name}");
        }
    }

    #[test]
    fn other_text_is_no_pattern() {
        for text in ["models/**", "", "https://a/b**"] {
            assert!(check_pattern(text).is_err(), "{text}");
        }
    }
}
