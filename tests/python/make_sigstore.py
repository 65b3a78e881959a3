"""Writes keyless signatures of a private Sigstore for the tests: make_sigstore.py FOLDER SIGNATURE OTHER

The statements are those of SIGNATURE, a signature by key of the carton, and of OTHER, one of another carton. Written are `trusted_root.json`,
`trust_config.json` (the same for the stock tool), and `keyless/NAME.sig` for each NAME below: `good`, `timestamped` and `intoto` hold, and
each other one is wrong in one way.
"""

import base64
import copy
import dataclasses
import datetime
import hashlib
import json
import pathlib
import struct
import sys

from asn1crypto import algos, cms, tsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FOLDER = pathlib.Path(sys.argv[1])
MINUTE = datetime.timedelta(minutes=1)
# Long ago: the certificates of keyless signatures are valid for minutes, and long expired when somebody verifies.
SIGNED = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) - datetime.timedelta(days=100)
IDENTITY = "https://example.com/team/models/release.yml@refs/tags/v1"
ISSUER = "https://issuer.example.com"
SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def b64(data):
    return base64.b64encode(data).decode()


def sha256(data):
    return hashlib.sha256(data).digest()


def new_key():
    return ec.generate_private_key(ec.SECP256R1())


def sign(key, data):
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def spki(key):
    return key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def der(certificate):
    return certificate.public_bytes(serialization.Encoding.DER)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def usage(*, signs=False, certifies=False):
    return x509.KeyUsage(signs, not signs and not certifies, False, False, False, certifies, certifies, False, False)


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """A root, and a certificate for one purpose that it has issued: of an intermediate authority, or of one for timestamps."""

    def __init__(self, purpose=None):
        self.root_key, self.key = new_key(), new_key()
        begins, ends = SIGNED - 1000 * MINUTE, SIGNED + datetime.timedelta(days=3650)
        issuer = name("private-sigstore")
        certificates = []
        for subject, key, is_root in ((issuer, self.root_key, True), (name("private-sigstore-part"), self.key, False)):
            signs = purpose is not None and not is_root
            builder = (
                x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), begins, ends)
                .add_extension(x509.BasicConstraints(not signs, None), critical=True)
                .add_extension(usage(signs=signs, certifies=not signs), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.root_key.public_key()), critical=False)
            )
            if signs:
                builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
            certificates.append(builder.sign(self.root_key, hashes.SHA256()))
        self.root, self.certificate = certificates

    def in_root(self):
        return {
            "subject": {"organization": "example.com", "commonName": "private-sigstore"},
            "uri": "https://authority.example.com",
            "certChain": {"certificates": [{"rawBytes": b64(der(self.certificate))}, {"rawBytes": b64(der(self.root))}]},
            "validFor": {"start": (SIGNED - 900 * MINUTE).isoformat().replace("+00:00", "Z")},
        }


class Log:
    """The key of a log, of certificates or of signatures."""

    def __init__(self):
        self.key = new_key()
        self.id = sha256(spki(self.key))

    def in_root(self):
        return {
            "baseUrl": "https://log.example.com",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": b64(spki(self.key)),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": (SIGNED - 2000 * MINUTE).isoformat().replace("+00:00", "Z")},
            },
            "logId": {"keyId": b64(self.id)},
        }


@dataclasses.dataclass
class Sigstore:
    authority: Authority = dataclasses.field(default_factory=Authority)
    ct_log: Log = dataclasses.field(default_factory=Log)
    log: Log = dataclasses.field(default_factory=Log)
    timestamps: Authority = dataclasses.field(default_factory=lambda: Authority(ExtendedKeyUsageOID.TIME_STAMPING))

    def trusted_root(self):
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self.log.in_root()],
            "certificateAuthorities": [self.authority.in_root()],
            "ctlogs": [self.ct_log.in_root()],
            "timestampAuthorities": [self.timestamps.in_root()],
        }

    def trust_config(self):
        def service(kind, version):
            validity = {"start": "2020-01-01T00:00:00Z"}
            return [{"url": f"https://{kind}.example.com", "majorApiVersion": version, "validFor": validity, "operator": "me"}]

        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(),
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": service("ca", 1),
                "oidcUrls": service("oidc", 1),
                "rekorTlogUrls": service("log", 1),
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": service("tsa", 1),
                "tsaConfig": {"selector": "ANY"},
            },
        }


SIGSTORE = Sigstore()


def signing_certificate(key, options):
    """A certificate for ten minutes, with the timestamp of the log of certificates."""
    authority, log = options.authority, options.ct_log
    encoded = options.issuer.encode()
    identity = x509.UniformResourceIdentifier(options.identity)
    builder = (
        x509.CertificateBuilder(authority.certificate.subject, x509.Name([]), key.public_key(), x509.random_serial_number())
        .not_valid_before(options.begins)
        .not_valid_after(options.begins + 10 * MINUTE)
        .add_extension(usage(signs=options.signs), critical=True)
        .add_extension(x509.ExtendedKeyUsage([options.purpose]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([identity]), critical=True)
        # The provider of identities, as bare text and as a UTF8String.
        .add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1"), encoded), critical=False)
        .add_extension(
            x509.UnrecognizedExtension(
                x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8"), bytes([0x0C, len(encoded)]) + encoded
            ),
            critical=False,
        )
    )
    if not options.has_sct:
        return builder.sign(authority.key, hashes.SHA256())
    # RFC 6962, section 3.2: signed is the certificate without the timestamp.
    without = builder.sign(authority.key, hashes.SHA256()).tbs_certificate_bytes
    milliseconds = int(options.begins.timestamp() * 1000)
    precertificate = sha256(spki(authority.key)) + len(without).to_bytes(3, "big") + without
    signed = struct.pack("!BBQH", 0, 0, milliseconds, 1) + precertificate + struct.pack("!H", 0)
    signature = sign(options.ct_key or log.key, signed)
    sct = struct.pack("!B32sQHBBH", 0, log.id, milliseconds, 0, 4, 3, len(signature)) + signature
    scts = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
    value = bytes([0x04]) + (bytes([len(scts)]) if len(scts) < 128 else bytes([0x81, len(scts)])) + scts
    return builder.add_extension(x509.UnrecognizedExtension(SCTS, value), critical=False).sign(authority.key, hashes.SHA256())


def dsse_body(payload, signature, certificate, payload_type):
    envelope = {"payload": b64(payload), "payloadType": payload_type, "signatures": [{"keyid": "", "sig": b64(signature)}]}
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": sha256(canonical(envelope)).hex()},
            "payloadHash": {"algorithm": "sha256", "value": sha256(payload).hex()},
            "signatures": [{"signature": b64(signature), "verifier": b64(pem)}],
        },
    }


def hashedrekord_body(payload, signature, certificate, payload_type):
    verifier = {"x509Certificate": {"rawBytes": b64(der(certificate))}, "keyDetails": "PKIX_ECDSA_P256_SHA_256"}
    record = {
        "data": {"algorithm": "SHA2_256", "digest": b64(sha256(authenticated(payload_type, payload)))},
        "signature": {"content": b64(signature), "verifier": verifier},
    }
    return {"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": {"hashedRekordV002": record}}


def intoto_body(payload, signature, certificate, payload_type):
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    # The log encodes the signature's text once more.
    signatures = [{"publicKey": b64(pem), "sig": b64(b64(signature).encode())}]
    content = {
        "envelope": {"payloadType": payload_type, "signatures": signatures},
        "hash": {"algorithm": "sha256", "value": sha256(b"unused").hex()},
        "payloadHash": {"algorithm": "sha256", "value": sha256(payload).hex()},
    }
    return {"apiVersion": "0.0.2", "kind": "intoto", "spec": {"content": content}}


def authenticated(payload_type, payload):
    return f"DSSEv1 {len(payload_type)} {payload_type} {len(payload)} ".encode() + payload


@dataclasses.dataclass
class Options:
    """How a signature is made. The defaults make a good one."""

    identity: str = IDENTITY
    issuer: str = ISSUER
    begins: datetime.datetime = SIGNED - MINUTE
    logged: datetime.datetime = SIGNED
    authority: Authority = SIGSTORE.authority
    ct_log: Log = SIGSTORE.ct_log
    ct_key: object = None
    log: Log = SIGSTORE.log
    log_key: object = None
    checkpoint_key: object = None
    has_sct: bool = True
    signs: bool = True
    purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING
    body: object = dsse_body
    logged_payload: bytes = None
    n_checkpoint_signatures: int = 1


def log_entry(body, options):
    """The entry of a log of three entries, with the proof that it is the second, and a promise where the format has one."""
    log, key = options.log, options.log_key or options.log.key
    leaves = [sha256(b"\0" + entry) for entry in (b"first", body, b"third")]
    root = sha256(b"\1" + sha256(b"\1" + leaves[0] + leaves[1]) + leaves[2])
    note = f"log.example.com - 1\n3\n{b64(root)}\n"
    signature = b64(log.id[:4] + sign(options.checkpoint_key or key, note.encode()))
    # A verifier tries the signatures with the key's number until one is right.
    wrong = b64(log.id[:4] + sign(new_key(), b"")) if options.n_checkpoint_signatures > 1 else ""
    signatures = [wrong] * (options.n_checkpoint_signatures - 1) + [signature]
    checkpoint = note + "\n" + "".join(f"\u2014 log.example.com {signature}\n" for signature in signatures)
    kind, version = json.loads(body)["kind"], json.loads(body)["apiVersion"]
    entry = {
        "logIndex": "1001" if kind != "hashedrekord" else "1",
        "logId": {"keyId": b64(log.id)},
        "kindVersion": {"kind": kind, "version": version},
        "inclusionProof": {
            "logIndex": "1",
            "rootHash": b64(root),
            "treeSize": "3",
            "hashes": [b64(leaves[0]), b64(leaves[2])],
            "checkpoint": {"envelope": checkpoint},
        },
        "canonicalizedBody": b64(body),
    }
    if kind != "hashedrekord":
        time = int(options.logged.timestamp())
        promised = canonical({"body": b64(body), "integratedTime": time, "logID": log.id.hex(), "logIndex": 1001})
        entry["integratedTime"] = str(time)
        entry["inclusionPromise"] = {"signedEntryTimestamp": b64(sign(key, promised))}
    return entry


def timestamp(signature, time, authority):
    """The answer of an authority for timestamps (RFC 3161)."""
    certificate = asn1_x509.Certificate.load(der(authority.certificate))
    digest = algos.DigestAlgorithm({"algorithm": "sha256"})
    info = tsp.TSTInfo(
        {
            "version": "v1",
            "policy": "1.3.6.1.4.1.57264.2",
            "message_imprint": {"hash_algorithm": digest, "hashed_message": sha256(signature)},
            "serial_number": 1,
            "gen_time": time,
        }
    ).dump()
    certificate_id = {"cert_hash": sha256(der(authority.certificate))}
    attributes = cms.CMSAttributes(
        [
            {"type": "content_type", "values": ["tst_info"]},
            {"type": "message_digest", "values": [sha256(info)]},
            {"type": "signing_certificate_v2", "values": [{"certs": [certificate_id]}]},
        ]
    )
    signer = {
        "version": "v1",
        "sid": cms.SignerIdentifier(
            "issuer_and_serial_number", {"issuer": certificate.issuer, "serial_number": certificate.serial_number}
        ),
        "digest_algorithm": digest,
        "signed_attrs": attributes,
        "signature_algorithm": {"algorithm": "sha256_ecdsa"},
        "signature": sign(authority.key, attributes.dump()),
    }
    signed = {
        "version": "v3",
        "digest_algorithms": [digest],
        "encap_content_info": {"content_type": "tst_info", "content": cms.ParsableOctetString(info)},
        "certificates": [certificate],
        "signer_infos": [signer],
    }
    token = cms.ContentInfo({"content_type": "signed_data", "content": cms.SignedData(signed)})
    return tsp.TimeStampResp({"status": {"status": "granted"}, "time_stamp_token": token}).dump()


def bundle(statement, **options):
    options = Options(**options)
    key = new_key()
    certificate = signing_certificate(key, options)
    payload_type = "application/vnd.in-toto+json"
    signature = sign(key, authenticated(payload_type, statement))
    body = canonical(options.body(options.logged_payload or statement, signature, certificate, payload_type))
    made = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "certificate": {"rawBytes": b64(der(certificate))},
            "tlogEntries": [log_entry(body, options)],
        },
        "dsseEnvelope": {
            "payload": b64(statement),
            "payloadType": payload_type,
            "signatures": [{"sig": b64(signature), "keyid": ""}],
        },
    }
    if options.body is hashedrekord_body:
        token = timestamp(signature, options.logged, SIGSTORE.timestamps)
        made["verificationMaterial"]["timestampVerificationData"] = {"rfc3161Timestamps": [{"signedTimestamp": b64(token)}]}
    return made


def changed(made, change):
    made = copy.deepcopy(made)
    change(made["verificationMaterial"], made["verificationMaterial"]["tlogEntries"][0])
    return made


def flipped(text):
    data = bytearray(base64.b64decode(text))
    data[-1] ^= 1
    return b64(data)


statement, other = (
    base64.b64decode(json.loads(pathlib.Path(path).read_text())["dsseEnvelope"]["payload"]) for path in sys.argv[2:4]
)
good = bundle(statement)
timestamped = bundle(statement, body=hashedrekord_body)
stranger = Sigstore()
later = SIGNED + datetime.timedelta(days=2000)
bundles = {
    "good": good,
    "timestamped": timestamped,
    "intoto": bundle(statement, body=intoto_body),
    "other-identity": bundle(statement, identity="https://example.com/somebody/models/release.yml@refs/tags/v1"),
    "other-issuer": bundle(statement, issuer="https://login.example.com"),
    "other-carton": bundle(other),
    "other-authority": bundle(statement, authority=stranger.authority),
    "server": bundle(statement, purpose=ExtendedKeyUsageOID.SERVER_AUTH),
    "no-signing-usage": bundle(statement, signs=False),
    "no-sct": bundle(statement, has_sct=False),
    "sct-of-unknown-log": bundle(statement, ct_log=stranger.ct_log),
    "sct-by-other-key": bundle(statement, ct_key=stranger.ct_log.key),
    "unknown-log": bundle(statement, log=stranger.log),
    "log-by-other-key": bundle(statement, log_key=stranger.log.key),
    "checkpoint-by-other-key": bundle(statement, checkpoint_key=stranger.log.key),
    "entry-of-other-envelope": bundle(statement, logged_payload=other),
    "timestamped-entry-of-other-envelope": bundle(statement, logged_payload=other, body=hashedrekord_body),
    "logged-after-certificate": bundle(statement, logged=SIGNED + 60 * MINUTE),
    "logged-before-certificate": bundle(statement, logged=SIGNED - 60 * MINUTE),
    "timestamp-after-certificate": bundle(statement, logged=SIGNED + 60 * MINUTE, body=hashedrekord_body),
    "authority-not-yet-trusted": bundle(statement, begins=SIGNED - 950 * MINUTE, logged=SIGNED - 949 * MINUTE),
    "logged-in-the-future": bundle(statement, begins=later - MINUTE, logged=later),
    "timestamp-in-the-future": bundle(statement, begins=later - MINUTE, logged=later, body=hashedrekord_body),
    "entry-of-other-signature": changed(good, lambda material, _: material.update(tlogEntries=bundle(statement)["verificationMaterial"]["tlogEntries"])),
    "no-entry": changed(good, lambda material, _: material.update(tlogEntries=[])),
    "no-proof": changed(good, lambda _, entry: entry.pop("inclusionProof")),
    "no-promise": changed(good, lambda _, entry: entry.pop("inclusionPromise")),
    "no-timestamp": changed(timestamped, lambda material, _: material.pop("timestampVerificationData")),
    "no-checkpoint": changed(good, lambda _, entry: entry["inclusionProof"].pop("checkpoint")),
    "changed-proof": changed(
        good, lambda _, entry: entry["inclusionProof"]["hashes"].__setitem__(0, flipped(entry["inclusionProof"]["hashes"][0]))
    ),
    "changed-root": changed(good, lambda _, entry: entry["inclusionProof"].update(rootHash=flipped(entry["inclusionProof"]["rootHash"]))),
    "changed-promise": changed(
        good,
        lambda _, entry: entry["inclusionPromise"].update(
            signedEntryTimestamp=flipped(entry["inclusionPromise"]["signedEntryTimestamp"])
        ),
    ),
    "changed-time": changed(good, lambda _, entry: entry.update(integratedTime=str(int(SIGNED.timestamp()) + 1))),
    "two-entries": changed(good, lambda material, entry: material.update(tlogEntries=[entry, entry])),
    "chain": changed(
        good, lambda material, _: material.update(x509CertificateChain={"certificates": [material.pop("certificate")]})
    ),
    "many-timestamps": changed(
        timestamped,
        lambda material, _: material["timestampVerificationData"].update(
            rfc3161Timestamps=33 * material["timestampVerificationData"]["rfc3161Timestamps"]
        ),
    ),
    "many-checkpoint-signatures": bundle(statement, n_checkpoint_signatures=33),
}
payload = copy.deepcopy(good)
payload["dsseEnvelope"]["payload"] = b64(statement.rstrip() + b"\n\n")
bundles["changed-payload"] = payload
# The content that a reader finds depends on which it looks for.
content = {"messageDigest": {"algorithm": "SHA2_256", "digest": b64(sha256(statement))}, "signature": b64(b"signature")}
bundles["two-contents"] = {"messageSignature": content, **good}

(FOLDER / "trusted_root.json").write_text(json.dumps(SIGSTORE.trusted_root()))
(FOLDER / "other_root.json").write_text(json.dumps(stranger.trusted_root()))
(FOLDER / "trust_config.json").write_text(json.dumps(SIGSTORE.trust_config()))
(FOLDER / "keyless").mkdir(exist_ok=True)
for file, made in bundles.items():
    (FOLDER / "keyless" / f"{file}.sig").write_text(json.dumps(made))
