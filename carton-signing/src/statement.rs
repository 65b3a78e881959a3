//! The statement that is signed: the files of a carton and their digests (spec/signing.md, "What is signed").
//!
//! Pure: digests in, JSON out, and back. It is the in-toto statement of an OpenSSF model signature, version 1.0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::key::hex;

pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://model_signing/signature/v1.0";

/// The name of the file that lists the others.
const MANIFEST: &str = "MANIFEST";

/// Files of an unpacked carton that its hash does not cover: where files may be fetched, and a signature in the folder.
const UNCOVERED: [&str; 2] = ["LINKS", "model.sig"];

/// What a carton's signature covers: MANIFEST, and each of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedFiles {
    /// The digest of each file, with MANIFEST, sorted as the stock signer sorts: by the parts of the path.
    files: BTreeMap<Vec<String>, [u8; 32]>,
}

/// Why a statement is not that of a carton.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// What was signed is not JSON of the expected form.
    #[error("what was signed is malformed: {0}")]
    Malformed(String),
    /// What was signed is of another type, or in another version.
    #[error("what was signed has the {what} `{found}`, expected `{expected}`")]
    Type {
        /// Which field.
        what: &'static str,
        /// Its only value that is supported.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// The digest of the whole is not that of its parts.
    #[error("what was signed contradicts itself: its digest is not that of its files")]
    Subject,
    /// A file has another digest than the carton's.
    #[error("the bundle is for another carton: `{path}` has the digest {signed}, expected {found}")]
    Digest {
        /// The file.
        path: String,
        /// The digest in the signature.
        signed: String,
        /// The digest in the carton.
        found: String,
    },
    /// A file of the carton is not covered.
    #[error("the bundle does not cover `{path}`")]
    Missing {
        /// The file.
        path: String,
    },
    /// The signature covers a file that the carton does not have.
    #[error("the bundle is for another carton: it covers `{path}`, which is not in this one")]
    Extra {
        /// The file.
        path: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Serialize, Deserialize)]
struct Subject {
    name: String,
    digest: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Predicate {
    serialization: Serialization,
    resources: Vec<Resource>,
}

#[derive(Serialize, Deserialize)]
struct Serialization {
    method: String,
    hash_type: String,
    #[serde(default)]
    allow_symlinks: bool,
    #[serde(default)]
    ignore_paths: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Resource {
    name: String,
    algorithm: String,
    digest: String,
}

impl SignedFiles {
    /// The files of a carton: `manifest` is the SHA-256 of its MANIFEST, `files` are the lines of MANIFEST.
    pub fn new<'a>(manifest: [u8; 32], files: impl IntoIterator<Item = (&'a str, [u8; 32])>) -> Self {
        let parts = |path: &str| path.split('/').map(ToOwned::to_owned).collect();
        let files = files.into_iter().chain([(MANIFEST, manifest)]);
        Self { files: files.map(|(path, digest)| (parts(path), digest)).collect() }
    }

    /// How many files are covered, with MANIFEST.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether no file is covered. MANIFEST always is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The largest bundle that a signature over these files can reasonably have, in bytes: a limit for what is fetched and read.
    #[must_use]
    pub fn max_bundle_length(&self) -> usize {
        let names: usize = self.files.keys().map(|parts| parts.iter().map(|part| part.len() + 1).sum::<usize>()).sum();
        // JSON escapes a byte with six at most, base64 adds a third; an entry has about 200 bytes beside its name.
        (1 << 20) + 8 * names + 512 * self.files.len()
    }

    /// The JSON of the statement that is signed.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let resources = self.files.iter().map(|(parts, digest)| Resource {
            name: parts.join("/"),
            algorithm: "sha256".to_owned(),
            digest: hex(digest),
        });
        let whole = self.files.values().fold(Sha256::new(), |hasher, digest| hasher.chain_update(digest)).finalize();
        let statement = Statement {
            kind: STATEMENT_TYPE.to_owned(),
            // The name is that of the folder which the stock signer was given, and has no meaning.
            subject: vec![Subject {
                name: "carton".to_owned(),
                digest: BTreeMap::from([("sha256".to_owned(), hex(&whole))]),
            }],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: Predicate {
                serialization: Serialization {
                    method: "files".to_owned(),
                    hash_type: "sha256".to_owned(),
                    allow_symlinks: false,
                    ignore_paths: UNCOVERED.map(ToOwned::to_owned).to_vec(),
                },
                resources: resources.collect(),
            },
        };
        serde_json::to_vec(&statement).unwrap_or_default()
    }

    /// Checks that a statement is one about exactly these files. Returns the digest of its subject.
    ///
    /// LINKS and a signature that lie in the same folder may be covered too; a carton's hash says nothing about them.
    pub(crate) fn check(&self, payload_type: &str, payload: &[u8]) -> Result<[u8; 32], StatementError> {
        expect("payload type", PAYLOAD_TYPE, payload_type)?;
        let statement: Statement =
            serde_json::from_slice(payload).map_err(|error| StatementError::Malformed(error.to_string()))?;
        expect("type", STATEMENT_TYPE, &statement.kind)?;
        expect("predicate type", PREDICATE_TYPE, &statement.predicate_type)?;
        expect("method", "files", &statement.predicate.serialization.method)?;
        expect("hash type", "sha256", &statement.predicate.serialization.hash_type)?;
        let mut whole = Sha256::new();
        let mut missing: BTreeMap<String, &[u8; 32]> =
            self.files.iter().map(|(parts, digest)| (parts.join("/"), digest)).collect();
        for resource in &statement.predicate.resources {
            expect("algorithm", "sha256", &resource.algorithm)?;
            let signed = from_hex(&resource.digest).ok_or_else(|| {
                StatementError::Malformed(format!("the digest of `{}` is not 64 hexadecimal digits", resource.name))
            })?;
            whole.update(signed);
            match missing.remove(&resource.name) {
                Some(digest) if *digest == signed => {}
                Some(digest) => {
                    let (path, signed, found) = (resource.name.clone(), resource.digest.clone(), hex(digest));
                    return Err(StatementError::Digest { path, signed, found });
                }
                None if UNCOVERED.contains(&resource.name.as_str()) => {}
                // Listed twice, or not in the carton.
                None => return Err(StatementError::Extra { path: resource.name.clone() }),
            }
        }
        if let Some((path, _)) = missing.pop_first() {
            return Err(StatementError::Missing { path });
        }
        let whole: [u8; 32] = whole.finalize().into();
        match statement.subject.as_slice() {
            [subject] if subject.digest.get("sha256").and_then(|digest| from_hex(digest)) == Some(whole) => Ok(whole),
            _ => Err(StatementError::Subject),
        }
    }
}

fn expect(what: &'static str, expected: &'static str, found: &str) -> Result<(), StatementError> {
    if found == expected {
        return Ok(());
    }
    Err(StatementError::Type { what, expected, found: found.chars().take(100).collect() })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |character: u8| char::from(character).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(bytes)
}
