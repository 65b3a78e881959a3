//! Seeds of signatures.

use carton_signing::{Curve, PrivateKey, SigningIdentity};

use super::Seed;
use crate::oracle::signature::files;

/// The parts of a keyless signature, none of which is true.
const KEYLESS: &str = r#"{
 "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
 "verificationMaterial": {
  "certificate": {"rawBytes": "AAAA"},
  "tlogEntries": [{
   "logIndex": "1", "logId": {"keyId": "wNI9atQGlz+VWfO6LRygH4QUfY/8W4RFwiT5i5WRgB0="},
   "kindVersion": {"kind": "dsse", "version": "0.0.1"}, "integratedTime": "1700000000",
   "inclusionPromise": {"signedEntryTimestamp": "AAAA"},
   "inclusionProof": {
    "logIndex": "1", "rootHash": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "treeSize": "2",
    "hashes": ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],
    "checkpoint": {"envelope": "log - 1\n2\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 log wNI9agAA\n"}
   },
   "canonicalizedBody": "e30="
  }],
  "timestampVerificationData": {"rfc3161Timestamps": [{"signedTimestamp": "MAA="}]}
 },
 "dsseEnvelope": {"payload": "PAYLOAD", "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "AAAA"}]}
}"#;

pub(super) fn seeds() -> Vec<Seed> {
    let sign = |curve| SigningIdentity::with_key(PrivateKey::generate(curve).expect("random numbers")).sign(&files());
    let by_key = sign(Curve::P256);
    let bundle: serde_json::Value = serde_json::from_slice(&by_key).expect("it is a bundle");
    let payload = bundle["dsseEnvelope"]["payload"].as_str().expect("it has a payload");
    // The authority's own certificate stands in for one that it has issued.
    let root: serde_json::Value =
        serde_json::from_str(sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT).expect("it is JSON");
    let chain = "/certificateAuthorities/1/certChain/certificates/0/rawBytes";
    let certificate = root.pointer(chain).and_then(|certificate| certificate.as_str()).expect("it has a certificate");
    let keyless = KEYLESS.replace("PAYLOAD", payload).replacen("AAAA", certificate, 1);
    vec![
        Seed::new("signature", "p256", by_key),
        Seed::new("signature", "p384", sign(Curve::P384)),
        Seed::new("signature", "keyless", keyless),
    ]
}
