//! The manifest of an artifact: what a registry stores under a tag (OCI Image Spec 1.1, "Image Manifest"), in the form of the CNCF's ModelPack
//! specification (spec/registries.md). Pure: bytes in, layers out, and back.

use std::collections::BTreeMap;

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use serde::{Deserialize, Deserializer, Serialize};

use super::reference::{oci_digest, parse_digest};

/// The largest manifest that is read, in bytes. Registries accept no larger one.
pub const MAX_LENGTH: u64 = 4 << 20;

/// The media types of manifests that are asked for.
pub const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of an index of images.
pub(crate) const IMAGE_INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The kind of a model's artifact, and of its configuration (ModelPack 0.0.7).
const MODEL: &str = "application/vnd.cncf.model.manifest.v1+json";
const MODEL_CONFIG: &str = "application/vnd.cncf.model.config.v1+json";

/// The kind of an artifact that is a bundle of another, and of its only layer.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The configuration of an artifact that has none: `{}`.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The bytes of an empty configuration.
pub const EMPTY_CONFIG: &[u8] = b"{}";

/// The path of a layer's file (ModelPack), and the same for tools that know no models.
const FILE_PATH: &str = "org.cncf.model.filepath";
const TITLE: &str = "org.opencontainers.image.title";

/// Marks the layer that is the carton without its large files. The value is the carton's hash.
const CARTON: &str = "run.carton.manifest-sha256";

/// A blob that a manifest refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    media_type: String,
    /// The SHA-256 of the blob.
    #[serde(with = "digest_text")]
    pub digest: Sha256Digest,
    /// The length of the blob in bytes.
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifact_type: Option<String>,
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// A manifest, or an index of manifests.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawManifest {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<Descriptor>,
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    layers: Vec<Descriptor>,
    /// Of an index.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    manifests: Vec<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<Descriptor>,
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// The manifest of a carton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CartonManifest {
    /// The hash of the carton.
    pub carton: ManifestHash,
    /// The carton without the files that are layers of their own.
    pub small: Descriptor,
    /// The files of the carton that are layers of their own.
    pub files: Vec<Descriptor>,
}

/// A file of a carton that becomes a layer of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFile {
    /// Its path in the carton.
    pub path: String,
    /// The SHA-256 of the file.
    pub digest: Sha256Digest,
    /// The length of the file in bytes.
    pub size: u64,
}

/// Why the bytes are not the manifest of a carton.
#[derive(Debug, thiserror::Error)]
pub enum NoCarton {
    /// The manifest breaks a rule of the format: which one.
    #[error("its manifest is malformed: {0}")]
    Malformed(String),
    /// The artifact is an index of this many manifests.
    #[error("it is an index of {0} artifacts")]
    Index(usize),
    /// The artifact has no layer that is a carton.
    #[error("it is an artifact of the type `{artifact_type}` with {n_layers} layers, none of which is a carton")]
    Other {
        /// The type of the artifact, a media type.
        artifact_type: String,
        /// The number of its layers.
        n_layers: usize,
    },
}

impl CartonManifest {
    /// Reads the manifest of an artifact that is a carton.
    ///
    /// # Errors
    /// The manifest breaks a rule of the format, or is that of something else.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoCarton> {
        let raw = RawManifest::parse(bytes)?;
        if !raw.manifests.is_empty() {
            return Err(NoCarton::Index(raw.manifests.len()));
        }
        let marked = raw.layers.iter().position(|layer| layer.annotations.contains_key(CARTON));
        let Some(at) = marked else {
            let config = raw.config.map(|config| config.media_type);
            let artifact_type = raw.artifact_type.or(config).unwrap_or_default();
            return Err(NoCarton::Other { artifact_type, n_layers: raw.layers.len() });
        };
        let mut files = raw.layers;
        let small = files.remove(at);
        let hash = small.annotations.get(CARTON).and_then(|text| text.parse().ok());
        let carton = hash.ok_or_else(|| NoCarton::Malformed(format!("`{CARTON}` is not a SHA-256")))?;
        Ok(Self { carton, small, files })
    }

    /// The manifest of the carton `carton`, and its configuration, which is a blob of its own. Both follow from the arguments alone, so
    /// that pushing a carton twice changes nothing.
    pub fn write(
        carton: &ManifestHash,
        small: (Sha256Digest, u64),
        files: &[LayerFile],
        about: &About,
    ) -> (Vec<u8>, Vec<u8>) {
        let small_name = format!("{}.carton", about.file_name());
        let mut layers = vec![Descriptor {
            annotations: file_annotations(&small_name).chain([(CARTON.to_owned(), carton.to_string())]).collect(),
            ..Descriptor::new("application/vnd.cncf.model.weight.config.v1.raw", small.0, small.1)
        }];
        layers.extend(files.iter().map(|file| Descriptor {
            annotations: file_annotations(&file.path).collect(),
            ..Descriptor::new(media_type(&file.path), file.digest, file.size)
        }));
        let config = config_bytes(about, &layers);
        let manifest = RawManifest {
            artifact_type: Some(MODEL.to_owned()),
            layers,
            annotations: about.annotations(),
            ..RawManifest::of(Descriptor::of(MODEL_CONFIG, &config))
        };
        (to_json(&manifest), config)
    }
}

/// What the manifest says of a model.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The name of the model.
    pub name: Option<String>,
    /// The short description of the model.
    pub description: Option<String>,
    /// The licence of the model.
    pub license: Option<String>,
    /// The name of the runner.
    pub runner: String,
}

impl About {
    /// A name for the file of the carton.
    fn file_name(&self) -> String {
        let name: String = self
            .name
            .iter()
            .flat_map(|name| name.chars())
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let name = name.trim_matches('-');
        if name.is_empty() { "model".to_owned() } else { name.chars().take(64).collect() }
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let named =
            |key: &str, value: &Option<String>| Some((format!("org.opencontainers.image.{key}"), value.clone()?));
        [named("title", &self.name), named("description", &self.description), named("licenses", &self.license)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The configuration of a ModelPack artifact.
fn config_bytes(about: &About, layers: &[Descriptor]) -> Vec<u8> {
    let mut descriptor = serde_json::Map::new();
    if let Some(name) = &about.name {
        descriptor.insert("name".to_owned(), name.as_str().into());
    }
    if let Some(license) = &about.license {
        descriptor.insert("licenses".to_owned(), vec![license.as_str()].into());
    }
    let diff_ids: Vec<String> = layers.iter().map(|layer| oci_digest(&layer.digest)).collect();
    to_json(&serde_json::json!({
        "descriptor": descriptor,
        "config": { "format": about.runner },
        "modelfs": { "type": "layers", "diffIds": diff_ids },
    }))
}

/// The kind of a layer, by what the folders of a carton are for.
fn media_type(path: &str) -> &'static str {
    match path.split_once('/').map(|(folder, _)| folder) {
        Some("misc") => "application/vnd.cncf.model.doc.v1.raw",
        Some("tensor_data") => "application/vnd.cncf.model.dataset.v1.raw",
        _ => "application/vnd.cncf.model.weight.v1.raw",
    }
}

fn file_annotations(path: &str) -> impl Iterator<Item = (String, String)> + use<> {
    [FILE_PATH, TITLE].map(|key| (key.to_owned(), path.to_owned())).into_iter()
}

/// The manifest of a bundle of the artifact `subject`.
pub fn write_bundle(subject: &Descriptor, bundle: &[u8]) -> Vec<u8> {
    to_json(&RawManifest {
        artifact_type: Some(BUNDLE.to_owned()),
        layers: vec![Descriptor::of(BUNDLE, bundle)],
        subject: Some(subject.clone()),
        ..RawManifest::of(Descriptor::of(EMPTY, EMPTY_CONFIG))
    })
}

/// The layer that is the bundle, in the manifest of one.
pub fn bundle_layer(bytes: &[u8]) -> Option<Descriptor> {
    let raw = RawManifest::parse(bytes).ok()?;
    raw.layers.into_iter().find(|layer| layer.media_type == BUNDLE)
}

/// The artifacts that refer to another: what a registry answers, or what the tag holds that stands for this answer.
#[derive(Default)]
pub struct Referrers {
    /// Those of other kinds, as they were read: with fields that only their writers know, or digests of another kind.
    others: Vec<serde_json::Value>,
    /// The newest last.
    bundles: Vec<Descriptor>,
}

impl Referrers {
    /// Reads a manifest.
    ///
    /// # Errors
    /// The manifest is that of no carton.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoCarton> {
        let mut referrers = Self::default();
        for entry in RawManifest::parse(bytes)?.manifests {
            match serde_json::from_value::<Descriptor>(entry.clone()) {
                Ok(descriptor) if descriptor.artifact_type.as_deref() == Some(BUNDLE) => {
                    referrers.bundles.push(descriptor);
                }
                _ => referrers.others.push(entry),
            }
        }
        Ok(referrers)
    }

    /// The bundles among them, the newest last.
    pub fn bundles(&self) -> impl DoubleEndedIterator<Item = &Descriptor> {
        self.bundles.iter()
    }

    /// Adds the bundles of a further page.
    pub fn extend(&mut self, page: Self) {
        self.bundles.extend(page.bundles);
    }

    /// Adds the manifest of a bundle, unless it is there.
    pub fn add_bundle(&mut self, manifest: &[u8]) {
        let descriptor =
            Descriptor { artifact_type: Some(BUNDLE.to_owned()), ..Descriptor::of(IMAGE_MANIFEST, manifest) };
        if self.bundles.iter().all(|known| known.digest != descriptor.digest) {
            self.bundles.push(descriptor);
        }
    }

    /// The manifest as JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // An index without a manifest is written with an empty list, which the specification demands.
        let mut manifests = self.others.clone();
        manifests.extend(self.bundles.iter().filter_map(|bundle| serde_json::to_value(bundle).ok()));
        to_json(&serde_json::json!({ "schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": manifests }))
    }
}

impl Descriptor {
    fn new(media_type: &str, digest: Sha256Digest, size: u64) -> Self {
        let media_type = media_type.to_owned();
        Self { media_type, digest, size, artifact_type: None, annotations: BTreeMap::new() }
    }

    /// The descriptor of a blob in memory.
    fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self::new(media_type, Sha256Digest::of(bytes), bytes.len() as u64)
    }

    /// The descriptor of a manifest.
    pub fn of_manifest(bytes: &[u8]) -> Self {
        Self::of(IMAGE_MANIFEST, bytes)
    }

    /// The path of the layer's file.
    #[cfg(test)]
    fn path(&self) -> Option<&str> {
        self.annotations.get(FILE_PATH).or_else(|| self.annotations.get(TITLE)).map(String::as_str)
    }
}

impl RawManifest {
    fn of(config: Descriptor) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(IMAGE_MANIFEST.to_owned()),
            artifact_type: None,
            config: Some(config),
            layers: Vec::new(),
            manifests: Vec::new(),
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, NoCarton> {
        let raw: Self = serde_json::from_slice(bytes).map_err(|error| NoCarton::Malformed(error.to_string()))?;
        match raw.schema_version {
            2 => Ok(raw),
            other => Err(NoCarton::Malformed(format!("its schema has version {other}, expected 2"))),
        }
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    // Writing JSON fails only for a map whose keys are not text. These values have no such map.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Reads `null` as an empty list or map: programs in Go write it for one.
fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A digest as registries write it.
mod digest_text {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Sha256Digest, oci_digest, parse_digest};

    pub(super) fn serialize<S: Serializer>(digest: &Sha256Digest, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&oci_digest(digest))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sha256Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_digest(&text).ok_or_else(|| serde::de::Error::custom("expected a digest of the form `sha256:…`"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn example() -> (Vec<u8>, Vec<u8>, ManifestHash) {
        let carton = ManifestHash::of(b"carton");
        let file =
            |path: &str| LayerFile { path: path.to_owned(), digest: Sha256Digest::of(path.as_bytes()), size: 70_000 };
        let about = About { name: Some("A model/1".to_owned()), runner: "onnx".to_owned(), ..About::default() };
        let files = [file("model/a.bin"), file("misc/b.png"), file("tensor_data/c")];
        let (manifest, config) = CartonManifest::write(&carton, (Sha256Digest::of(b"small"), 5), &files, &about);
        (manifest, config, carton)
    }

    #[test]
    fn a_carton_survives() {
        let (manifest, config, carton) = example();
        let read = CartonManifest::parse(&manifest).unwrap();
        assert_eq!((read.carton, read.small.digest, read.small.size), (carton, Sha256Digest::of(b"small"), 5));
        assert_eq!(read.small.path(), Some("A-model-1.carton"));
        let paths: Vec<_> = read.files.iter().map(|file| (file.path().unwrap(), file.media_type.as_str())).collect();
        assert_eq!(
            paths,
            [
                ("model/a.bin", "application/vnd.cncf.model.weight.v1.raw"),
                ("misc/b.png", "application/vnd.cncf.model.doc.v1.raw"),
                ("tensor_data/c", "application/vnd.cncf.model.dataset.v1.raw"),
            ]
        );
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(config["modelfs"]["diffIds"].as_array().unwrap().len(), 4);
        assert_eq!(example().0, manifest, "the same carton has the same manifest");
    }

    #[test]
    fn other_artifacts_are_named() {
        let check = |text: &str, expected: &str| {
            let error = CartonManifest::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let digest = format!("sha256:{}", "ab".repeat(32));
        let layer = format!(r#"{{"mediaType":"x","digest":"{digest}","size":1"#);
        check("{", "malformed");
        check(r#"{"schemaVersion":1}"#, "version 1, expected 2");
        check(&format!(r#"{{"schemaVersion":2,"manifests":[{layer}}}]}}"#), "an index of 1 artifacts");
        check(
            &format!(r#"{{"schemaVersion":2,"config":{layer}}},"layers":[{layer}}}]}}"#),
            "the type `x` with 1 layers",
        );
        let marked = |value: &str| {
            format!(r#"{{"schemaVersion":2,"layers":[{layer},"annotations":{{"{CARTON}":"{value}"}}}}]}}"#)
        };
        check(&marked("12"), "is not a SHA-256");
        check(&marked(&"ab".repeat(32)).replace("sha256:", "md5:"), "malformed");
        check(&marked(&"ab".repeat(32)).replace("\"size\":1", "\"size\":-1"), "malformed");
        assert!(CartonManifest::parse(marked(&"ab".repeat(32)).as_bytes()).is_ok());
    }

    #[test]
    fn bundles_are_found_among_referrers() {
        let (manifest, ..) = example();
        let subject = Descriptor::of_manifest(&manifest);
        let bundle = write_bundle(&subject, b"signed");
        assert_eq!(bundle_layer(&bundle).unwrap().digest, Sha256Digest::of(b"signed"));
        let mut referrers = Referrers::parse(&Referrers::default().to_bytes()).unwrap();
        referrers.add_bundle(&bundle);
        referrers.add_bundle(&bundle);
        let found = Referrers::parse(&referrers.to_bytes()).unwrap();
        let digests: Vec<_> = found.bundles().map(|descriptor| descriptor.digest).collect();
        assert_eq!(digests, [Sha256Digest::of(&bundle)]);
    }

    #[test]
    fn referrers_of_other_programs_stay_as_they_are() {
        let other = format!(
            r#"{{"mediaType":"x","digest":"sha512:{}","size":1,"platform":{{"os":"linux"}},"annotations":null}}"#,
            "ab".repeat(64)
        );
        let index = |manifests: &str| format!(r#"{{"schemaVersion":2,"layers":null,"manifests":{manifests}}}"#);
        let mut referrers = Referrers::parse(index(&format!("[{other}]")).as_bytes()).unwrap();
        referrers.add_bundle(b"bundle");
        let written: serde_json::Value = serde_json::from_slice(&referrers.to_bytes()).unwrap();
        assert_eq!(written["manifests"][0], serde_json::from_str::<serde_json::Value>(&other).unwrap());
        assert_eq!(written["manifests"].as_array().unwrap().len(), 2);
        assert_eq!(Referrers::parse(index("null").as_bytes()).unwrap().bundles().count(), 0);
    }
}
