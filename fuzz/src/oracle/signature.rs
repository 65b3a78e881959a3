//! Arbitrary bytes as the signature of a carton. Nobody who is trusted has signed these files, so none is accepted.

use std::sync::LazyLock;

use carton_signing::{Bundle, Curve, KeylessAuthority, PrivateKey, SignedFiles, SigstoreRoot, Trusted};
use sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;

/// Files that the seeds are signatures of, and who is trusted: a key, and every identity of an instance of Sigstore.
static TRUSTED: LazyLock<(SignedFiles, Trusted)> = LazyLock::new(|| {
    let root = SigstoreRoot::from_json(SIGSTORE_PRODUCTION_TRUSTED_ROOT).expect("it is a trusted root");
    let mut trusted = Trusted::default();
    trusted.keys.push(PrivateKey::generate(Curve::P256).expect("there are random numbers").public_key());
    trusted.keyless.push(KeylessAuthority::new(
        root,
        "https://token.actions.githubusercontent.com",
        vec!["*".to_owned()],
    ));
    (files(), trusted)
});

/// The files of a carton.
pub fn files() -> SignedFiles {
    SignedFiles::new([1; 32], [("carton.toml", [2; 32]), ("model/a.onnx", [3; 32])])
}

/// Checks these bytes. Returns whether they are a bundle.
pub fn check(bytes: &[u8]) -> bool {
    let (files, trusted) = &*TRUSTED;
    let Ok(bundle) = Bundle::parse(bytes, files.max_bundle_length()) else { return false };
    let _ = format!("{:?}", bundle.claimed_signer());
    if let Err(error) = bundle.verify(files, trusted, jiff::Timestamp::UNIX_EPOCH) {
        let _ = format!("{error} {}", error.is_broken());
        return true;
    }
    panic!("a signature by nobody was accepted");
}
