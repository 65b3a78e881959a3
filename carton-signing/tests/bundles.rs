//! Bundles that are changed in any way: none of them is accepted, and the reason says what is wrong.
#![allow(clippy::unwrap_used, missing_docs)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carton_signing::{Bundle, Curve, PrivateKey, SignedFiles, SigningIdentity, Trusted, VerifiedSigner, VerifyError};
use proptest::prelude::*;
use serde_json::{Value, json};

fn files() -> SignedFiles {
    SignedFiles::new([1; 32], [("carton.toml", [2; 32]), ("model/a b.onnx", [3; 32]), ("model/ä", [4; 32])])
}

/// A key, and whom to trust to accept its signatures.
fn key(curve: Curve) -> (SigningIdentity, Trusted) {
    let key = PrivateKey::generate(curve).unwrap();
    let trusted = Trusted { keys: vec![key.public_key()], ..Trusted::default() };
    (SigningIdentity::with_key(key), trusted)
}

fn verify(bytes: &[u8], trusted: &Trusted) -> Result<VerifiedSigner, String> {
    let files = files();
    let bundle = Bundle::parse(bytes, files.max_bundle_length()).map_err(|error| error.to_string())?;
    bundle.verify(&files, trusted, jiff::Timestamp::now()).map_err(|error| error.to_string())
}

/// Signs a statement that `change` made of ours, with its own key.
fn signed_statement(change: impl FnOnce(&mut Value)) -> Result<VerifiedSigner, String> {
    let (identity, trusted) = key(Curve::P256);
    let mut bundle: Value = serde_json::from_slice(&identity.sign(&files())).unwrap();
    let payload = STANDARD.decode(bundle["dsseEnvelope"]["payload"].as_str().unwrap()).unwrap();
    let mut statement: Value = serde_json::from_slice(&payload).unwrap();
    change(&mut statement);
    bundle["dsseEnvelope"]["payload"] = STANDARD.encode(statement.to_string()).into();
    verify(bundle.to_string().as_bytes(), &trusted)
}

#[test]
fn each_curve_signs_and_verifies() {
    for curve in [Curve::P256, Curve::P384] {
        let (identity, trusted) = key(curve);
        let bytes = identity.sign(&files());
        let fingerprint = identity.key().public_key().fingerprint();
        assert_eq!(verify(&bytes, &trusted), Ok(VerifiedSigner::Key { fingerprint }));
        assert!(verify(&bytes, &key(curve).1).unwrap_err().contains("by no trusted key"));
        assert!(verify(&bytes, &Trusted::default()).unwrap_err().contains("no key is trusted"));
    }
}

#[test]
fn statements_about_something_else_are_refused() {
    let check = |change: &dyn Fn(&mut Value), expected: &str| {
        let error = signed_statement(change).unwrap_err();
        assert!(error.contains(expected), "expected `{expected}`: {error}");
    };
    let resources = "/predicate/resources";
    check(&|statement| statement["_type"] = "x".into(), "the type `x`");
    check(&|statement| statement["predicateType"] = "x".into(), "the predicate type `x`");
    check(&|statement| statement["predicate"]["serialization"]["method"] = "shards".into(), "the method `shards`");
    check(
        &|statement| statement["predicate"]["serialization"]["hash_type"] = "blake2b".into(),
        "the hash type `blake2b`",
    );
    check(&|statement| statement.pointer_mut(resources).unwrap()[0]["algorithm"] = "md5".into(), "the algorithm `md5`");
    check(&|statement| statement.pointer_mut(resources).unwrap()[0]["digest"] = "12".into(), "64 hexadecimal digits");
    check(
        &|statement| statement.pointer_mut(resources).unwrap()[0]["digest"] = "ff".repeat(32).into(),
        "another carton",
    );
    check(
        &|statement| drop(statement.pointer_mut(resources).unwrap().as_array_mut().unwrap().pop()),
        "does not cover `model/ä`",
    );
    check(
        &|statement| {
            let resources = statement.pointer_mut(resources).unwrap().as_array_mut().unwrap();
            resources.push(resources[0].clone());
        },
        "which is not in this one",
    );
    check(&|statement| statement["subject"][0]["digest"]["sha256"] = "00".repeat(32).into(), "contradicts itself");
    check(&|statement| statement["subject"] = json!([]), "contradicts itself");
    // What is right about the carton, and was changed after it was signed, is refused for that.
    check(&|statement| statement["note"] = "new".into(), "by no trusted key");
}

#[test]
fn a_large_bundle_is_not_read() {
    let files = files();
    let error = Bundle::parse(&vec![b' '; files.max_bundle_length() + 1], files.max_bundle_length()).unwrap_err();
    assert!(error.to_string().contains("too large"));
    let many: Vec<(String, [u8; 32])> = (0..10_000).map(|index| (format!("model/\u{1}{index}"), [0; 32])).collect();
    let many = SignedFiles::new([1; 32], many.iter().map(|(name, digest)| (name.as_str(), *digest)));
    let (identity, trusted) = key(Curve::P256);
    let bundle = Bundle::parse(&identity.sign(&many), many.max_bundle_length()).unwrap();
    bundle.verify(&many, &trusted, jiff::Timestamp::now()).unwrap();
    assert!(matches!(bundle.verify(&files, &trusted, jiff::Timestamp::now()), Err(VerifyError::Statement(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No byte of a bundle can change in a way that makes it say something else.
    #[test]
    fn a_changed_byte_is_refused_or_means_nothing(position in any::<prop::sample::Index>(), bits in 1_u8..) {
        let (identity, trusted) = key(Curve::P256);
        let mut bytes = identity.sign(&files());
        let position = position.index(bytes.len());
        bytes[position] ^= bits;
        if let Ok(signer) = verify(&bytes, &trusted) {
            let fingerprint = identity.key().public_key().fingerprint();
            prop_assert_eq!(signer, VerifiedSigner::Key { fingerprint });
        }
    }

    #[test]
    fn other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(verify(&bytes, &Trusted::default()).is_err());
    }
}
