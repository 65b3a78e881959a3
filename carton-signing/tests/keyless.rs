//! Keyless signatures of a private Sigstore: which of them are accepted, and what the stock library makes of the same bundles.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carton_signing::{
    Bundle, ClaimedSigner, KeylessAuthority, SignedFiles, SigstoreRoot, SigstoreRootError, Trusted, VerifiedSigner,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const IDENTITY: &str = "https://example.com/team/models/release.yml@refs/tags/v1";
const ISSUER: &str = "https://issuer.example.com";

/// The files of an unpacked carton, and keyless signatures of it.
struct Signatures {
    folder: tempfile::TempDir,
    python: OsString,
    files: SignedFiles,
}

impl Signatures {
    /// Lets the stock tool say what is to be signed, and a script sign that keyless. `None` without Python.
    fn make() -> Option<Self> {
        let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
            eprintln!("skipped: CARTON_TEST_PYTHON names no Python with model-signing (scripts/test-setup)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let contents = [("MANIFEST", "a list"), ("carton.toml", "metadata"), ("model/weights.bin", "weights")];
        let write = |contents: &[(&str, &str)]| {
            for (path, content) in contents {
                let path = folder.path().join("carton").join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
        };
        let run = |arguments: &[&str]| {
            let status = Command::new(&python).args(arguments).current_dir(&folder).stdout(Stdio::null()).status();
            assert!(status.unwrap().success(), "{arguments:?}");
        };
        let key = carton_signing::PrivateKey::generate(carton_signing::Curve::P256).unwrap();
        fs::write(folder.path().join("key.pem"), key.to_pem(None).unwrap()).unwrap();
        for (signature, weights) in [("other.sig", "other weights"), ("carton.sig", "weights")] {
            write(&contents);
            write(&[("model/weights.bin", weights)]);
            run(&[
                "-m",
                "model_signing",
                "sign",
                "key",
                "carton",
                "--signature",
                signature,
                "--private_key",
                "key.pem",
            ]);
        }
        run(&[script("make_sigstore.py").to_str().unwrap(), ".", "carton.sig", "other.sig"]);
        let digests = contents.map(|(path, content)| (path, Sha256::digest(content).into()));
        let files = SignedFiles::new(digests[0].1, digests[1..].iter().copied());
        Some(Self { folder, python, files })
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn signature(&self, name: &str) -> String {
        self.read(&format!("keyless/{name}.sig"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("keyless")).unwrap();
        let name = |entry: fs::DirEntry| entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort_unstable();
        names
    }

    fn trusted(&self, root: &str, issuer: &str, identity: &str) -> Trusted {
        let root = SigstoreRoot::from_json(&self.read(root)).unwrap();
        let keyless = vec![KeylessAuthority::new(root, issuer, vec![identity.to_owned()])];
        Trusted { keyless, ..Trusted::default() }
    }

    fn verify(&self, bundle: &str, trusted: &Trusted) -> Result<VerifiedSigner, String> {
        let bundle =
            Bundle::parse(bundle.as_bytes(), self.files.max_bundle_length()).map_err(|error| error.to_string())?;
        bundle.verify(&self.files, trusted, jiff::Timestamp::now()).map_err(|error| error.to_string())
    }

    /// What the stock library says of each signature: nothing, or why it is refused.
    fn stock(&self) -> BTreeMap<String, Option<String>> {
        let mut command = Command::new(&self.python);
        command.arg(script("verify_sigstore.py")).args(["carton", "trust_config.json", IDENTITY, ISSUER]);
        command.args(self.names().iter().map(|name| format!("keyless/{name}.sig")));
        let output = command.current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python").join(name)
}

/// What each signature is refused for; nothing if it holds.
const EXPECTED: [(&str, &str); 39] = [
    ("authority-not-yet-trusted", "no trusted certificate authority is valid at"),
    ("chain", "one of a key, a chain of certificates, or a certificate"),
    ("changed-payload", "invalid signature"),
    ("changed-promise", "invalid inclusion promise"),
    ("changed-proof", "invalid inclusion proof"),
    ("changed-root", "root hash does not match checkpoint root hash"),
    ("changed-time", "invalid inclusion promise"),
    ("checkpoint-by-other-key", "invalid checkpoint"),
    ("entry-of-other-envelope", "log entry does not match the bundle"),
    ("entry-of-other-signature", "log entry does not match the bundle"),
    ("good", ""),
    ("intoto", ""),
    ("log-by-other-key", "invalid inclusion promise"),
    ("logged-after-certificate", "certificate"),
    ("logged-before-certificate", "certificate"),
    ("logged-in-the-future", "in the future"),
    ("many-checkpoint-signatures", "has 33 signatures, which is too many"),
    ("many-timestamps", "has 33 timestamps, which is too many"),
    ("no-checkpoint", "has no checkpoint"),
    ("no-entry", "no entry of a transparency log"),
    ("no-promise", "no verified timestamp"),
    ("no-proof", "inclusion proof"),
    ("no-sct", "missing SCT extension"),
    ("no-signing-usage", "its key usage lacks `digitalSignature`"),
    ("no-timestamp", "no verified timestamp"),
    ("other-authority", "certificate chain is invalid"),
    ("other-carton", "is for another carton"),
    ("other-identity", "by https://example.com/somebody/models/release.yml@refs/tags/v1"),
    ("other-issuer", "(as https://login.example.com says), who is not trusted"),
    ("sct-by-other-key", "SCT signature verification failed"),
    ("sct-of-unknown-log", "SCT signature verification failed"),
    ("server", "its extended key usage lacks `codeSigning`"),
    ("timestamp-after-certificate", "certificate"),
    ("timestamp-in-the-future", "in the future"),
    ("timestamped", ""),
    ("timestamped-entry-of-other-envelope", "artifact hash mismatch"),
    ("two-contents", "can be read in two ways"),
    ("two-entries", "has 2 entries of transparency logs, expected 1"),
    ("unknown-log", "No log key valid"),
];

/// Where the stock library is stricter, or less strict: it reads no entries of the older form for attestations, does not compare the time
/// of a certificate with the time for which its authority is trusted, nor that of the entry with the clock.
const STOCK_DIFFERS: [&str; 4] =
    ["authority-not-yet-trusted", "intoto", "logged-in-the-future", "timestamp-in-the-future"];

#[test]
fn the_stock_library_accepts_and_refuses_the_same() {
    let Some(signatures) = Signatures::make() else { return };
    assert_eq!(signatures.names(), EXPECTED.map(|(name, _)| name));
    let trusted = signatures.trusted("trusted_root.json", ISSUER, IDENTITY);
    let stock = signatures.stock();
    let mut wrong = Vec::new();
    for (name, expected) in EXPECTED {
        let result = signatures.verify(&signatures.signature(name), &trusted);
        let is_expected = match &result {
            Ok(_) => expected.is_empty(),
            Err(error) => !expected.is_empty() && error.contains(expected),
        };
        let agrees = result.is_ok() == stock[name].is_none();
        if !is_expected || agrees == STOCK_DIFFERS.contains(&name) {
            wrong
                .push(format!("{name}: expected `{expected}`, found {result:?}; the stock library: {:?}", stock[name]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn identity_issuer_and_root_are_all_needed() {
    let Some(signatures) = Signatures::make() else { return };
    let good = signatures.signature("good");
    let check = |root: &str, issuer: &str, identity: &str, expected: Result<&str, &str>| match (
        signatures.verify(&good, &signatures.trusted(root, issuer, identity)),
        expected,
    ) {
        (Ok(VerifiedSigner::Keyless { identity, issuer, signed_at }), Ok(expected)) => {
            assert_eq!((identity.as_str(), issuer.as_str()), (expected, ISSUER));
            let age = jiff::Timestamp::now().as_second() - signed_at.as_second();
            assert!((99 * 86400..101 * 86400).contains(&age), "{signed_at}");
        }
        (Err(error), Err(expected)) => assert!(error.contains(expected), "expected `{expected}`: {error}"),
        (found, expected) => panic!("expected {expected:?}, found {found:?}"),
    };
    let root = "trusted_root.json";
    check(root, ISSUER, IDENTITY, Ok(IDENTITY));
    check(root, ISSUER, "https://example.com/team/*/release.yml@refs/tags/*", Ok(IDENTITY));
    check(root, ISSUER, "https://example.com/*/release.yml@refs/heads/main", Err("who is not trusted"));
    // An issuer is no pattern.
    check(root, "https://*.example.com", IDENTITY, Err("who is not trusted"));
    check(root, "", "*", Err("who is not trusted"));
    check("other_root.json", ISSUER, IDENTITY, Err("is not confirmed"));
    // Another instance that does not know the certificate hides nothing.
    let mut both = signatures.trusted("other_root.json", ISSUER, IDENTITY);
    both.keyless.extend(signatures.trusted(root, ISSUER, IDENTITY).keyless);
    assert!(signatures.verify(&good, &both).is_ok());
    assert!(signatures.verify(&good, &Trusted::default()).unwrap_err().contains("no root of Sigstore is trusted"));
    let bundle = Bundle::parse(good.as_bytes(), 1 << 20).unwrap();
    let (identity, issuer) = (IDENTITY.to_owned(), ISSUER.to_owned());
    assert_eq!(bundle.claimed_signer(), ClaimedSigner::Keyless { identity, issuer });
}

#[test]
fn roots_that_lack_something_are_refused() {
    let Some(signatures) = Signatures::make() else { return };
    let root: Value = serde_json::from_str(&signatures.read("trusted_root.json")).unwrap();
    for (key, what) in [
        ("certificateAuthorities", "certificate authority"),
        ("ctlogs", "certificate transparency log"),
        ("tlogs", "transparency log"),
    ] {
        let mut root = root.clone();
        root[key] = json!([]);
        assert_eq!(SigstoreRoot::from_json(&root.to_string()), Err(SigstoreRootError::Incomplete(what)));
    }
    let mut bad_key = root.clone();
    bad_key["tlogs"][0]["publicKey"]["rawBytes"] = STANDARD.encode("no key").into();
    let too_long = format!("{root}{}", " ".repeat(1 << 20));
    for text in ["", "{}", "[]", "-----BEGIN CERTIFICATE-----", &bad_key.to_string(), &too_long] {
        assert!(matches!(SigstoreRoot::from_json(text), Err(SigstoreRootError::Malformed(_))), "{text:.100}");
    }
}

/// The roots of the public instance and of its staging, as the stock library has them.
#[test]
fn the_roots_of_the_public_instance_are_read() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else { return };
    let list = "import pathlib, sigstore; print(*pathlib.Path(sigstore.__file__).parent.rglob('trusted_root.json'), sep='\\n')";
    let output = Command::new(python).args(["-c", list]).output().unwrap();
    let paths: Vec<_> = str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert!(!paths.is_empty());
    for path in paths {
        SigstoreRoot::from_json(&fs::read_to_string(path).unwrap()).unwrap();
    }
}

/// A bundle is read from anywhere: no change of a byte makes it say something else, and none ends the process.
#[test]
fn a_changed_byte_is_refused_or_means_nothing() {
    let Some(signatures) = Signatures::make() else { return };
    let trusted = signatures.trusted("trusted_root.json", ISSUER, IDENTITY);
    for name in ["good", "timestamped"] {
        let good = signatures.signature(name);
        let expected = signatures.verify(&good, &trusted).unwrap();
        for position in (0..good.len()).step_by(13) {
            let mut bytes = good.clone().into_bytes();
            bytes[position] ^= 1 << (position % 7);
            let Ok(bundle) = Bundle::parse(&bytes, signatures.files.max_bundle_length()) else { continue };
            let _ = bundle.claimed_signer();
            if let Ok(signer) = bundle.verify(&signatures.files, &trusted, jiff::Timestamp::now()) {
                assert_eq!(signer, expected, "{name} {position}");
            }
        }
    }
}

#[test]
fn hostile_sizes_are_refused() {
    let Some(signatures) = Signatures::make() else { return };
    let trusted = signatures.trusted("trusted_root.json", ISSUER, IDENTITY);
    let check = |change: &dyn Fn(&mut Value)| {
        let mut bundle: Value = serde_json::from_str(&signatures.signature("good")).unwrap();
        change(&mut bundle);
        assert!(signatures.verify(&bundle.to_string(), &trusted).is_err(), "{:.200}", bundle.to_string());
    };
    let proof = "/verificationMaterial/tlogEntries/0/inclusionProof";
    let set = |pointer: &str, value: Value| {
        let pointer = format!("{proof}/{pointer}");
        check(&|bundle| *bundle.pointer_mut(&pointer).unwrap() = value.clone());
    };
    for number in ["-1", "0", "2", "9223372036854775807", "18446744073709551615", "99999999999999999999", "x", ""] {
        set("treeSize", number.into());
        set("logIndex", number.into());
    }
    set("hashes", vec![STANDARD.encode([0; 32]); 5000].into());
    set("hashes", json!([]));
    set("hashes", json!(["AAAA"]));
    set("rootHash", "".into());
    for envelope in ["", "\n\n", "a\n-1\nAAAA\n\n— a AAAA\n", "a\n3\nAAAA\n\n—\n", &"\n".repeat(100_000)] {
        set("checkpoint/envelope", envelope.into());
    }
    let entry = |key: &'static str, value: Value| {
        check(&|bundle| bundle["verificationMaterial"]["tlogEntries"][0][key] = value.clone());
    };
    for number in ["-9223372036854775808", "9223372036854775807", "253402300800", "0"] {
        entry("integratedTime", number.into());
    }
    entry("logIndex", "-1".into());
    entry("logId", json!({"keyId": ""}));
    entry("kindVersion", json!({"kind": "rpm", "version": "0.0.1"}));
    entry("canonicalizedBody", "".into());
    entry("canonicalizedBody", STANDARD.encode("[".repeat(100_000)).into());
    entry("inclusionPromise", json!({"signedEntryTimestamp": ""}));
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let bundle = signatures.signature("good").replacen('{', &format!("{{\"note\": {deep},"), 1);
    assert!(signatures.verify(&bundle, &trusted).is_err());
    check(&|bundle| bundle["verificationMaterial"]["certificate"]["rawBytes"] = "MIIB".into());
    check(&|bundle| {
        let tokens = vec![json!({"signedTimestamp": "MIIB"}); 32];
        bundle["verificationMaterial"]["timestampVerificationData"] = json!({"rfc3161Timestamps": tokens});
    });
}
