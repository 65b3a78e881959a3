"""Writes keys and certificates for the tests of signatures: make_certificates.py FOLDER

A root (`ca.pem`), an intermediate (`intermediate.pem`), and for each NAME below a key (`NAME.key`) and its certificate (`NAME.pem`). Keys
are written in the forms that OpenSSL writes: `sec1.key`, `encrypted.key` (password `secret`), and one on a curve that is not supported.
"""

import datetime
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FOLDER = pathlib.Path(sys.argv[1])
NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)
CODE_SIGNING = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
SERVER = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])


def usage(*, signs: bool, certifies: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(signs, False, not signs and not certifies, False, False, certifies, certifies, False, False)


def certificate(name, key, issuer, issuer_key, extensions, begins=NOW - DAY, ends=NOW + 30 * DAY, is_ca=False):
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    made = builder.sign(issuer_key, hashes.SHA256())
    (FOLDER / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return made


def write_key(name, key, form=serialization.PrivateFormat.PKCS8, encryption=serialization.NoEncryption()):
    (FOLDER / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (FOLDER / f"{name}.pub").write_bytes(public)


def authority(name, issuer=None, issuer_key=None, ends=NOW + 30 * DAY):
    key = ec.generate_private_key(ec.SECP384R1())
    extensions = [usage(signs=False, certifies=True)]
    made = certificate(name, key, issuer, issuer_key or key, extensions, NOW - 60 * DAY, ends, is_ca=True)
    return made.subject, key


root, root_key = authority("ca")
other, other_key = authority("other-ca")
middle, middle_key = authority("intermediate", root, root_key)
# Authorities that have expired, whose leaves have not.
old_root, old_root_key = authority("old-ca", ends=NOW - DAY)
old_middle, old_middle_key = authority("old-intermediate", root, root_key, ends=NOW - DAY)

mail = x509.SubjectAlternativeName([x509.RFC822Name("release@example.com")])
signing = [mail, usage(signs=True), CODE_SIGNING]
leaves = {
    "good": dict(extensions=signing),
    "digital-signature": dict(extensions=[mail, usage(signs=True)]),
    "somebody": dict(extensions=[x509.SubjectAlternativeName([x509.RFC822Name("somebody@example.com")]), *signing[1:]]),
    "expired": dict(extensions=signing, begins=NOW - 30 * DAY, ends=NOW - DAY),
    "later": dict(extensions=signing, begins=NOW + DAY),
    "server": dict(extensions=[mail, usage(signs=True), SERVER]),
    "no-signature": dict(extensions=[mail, usage(signs=False), CODE_SIGNING]),
    "no-usage": dict(extensions=[mail]),
    "authority": dict(extensions=signing, is_ca=True),
}
for name, options in leaves.items():
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(name, key)
    certificate(name, key, middle, middle_key, **options)
stranger = ec.generate_private_key(ec.SECP256R1())
write_key("stranger", stranger)
certificate("stranger", stranger, other, other_key, signing)
for name, issuer, issuer_key in (("of-old-ca", old_root, old_root_key), ("of-old-intermediate", old_middle, old_middle_key)):
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(name, key)
    certificate(name, key, issuer, issuer_key, signing)
# A certificate for a key on a curve that is not supported here, and is by the stock tool.
other_curve = ec.generate_private_key(ec.SECP521R1())
write_key("other-curve", other_curve)
certificate("other-curve", other_curve, middle, middle_key, signing)

write_key("p256", ec.generate_private_key(ec.SECP256R1()))
write_key("p384", ec.generate_private_key(ec.SECP384R1()))
write_key("sec1", ec.generate_private_key(ec.SECP256R1()), serialization.PrivateFormat.TraditionalOpenSSL)
write_key("encrypted", ec.generate_private_key(ec.SECP384R1()), encryption=serialization.BestAvailableEncryption(b"secret"))
write_key("p224", ec.generate_private_key(ec.SECP224R1()))
write_key("p521", ec.generate_private_key(ec.SECP521R1()))
write_key("secp256k1", ec.generate_private_key(ec.SECP256K1()))
