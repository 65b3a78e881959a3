"""What operations return: plain classes without methods. Paths are strings, sizes are in bytes, and hashes in hexadecimal digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Packed:
    """The result of `carton.pack`.

    Attributes:
        path: The carton.
        manifest_sha256: The hash of the carton, which `carton.load(expect=…)` takes.
        warnings: What may be unintended, one sentence each. The logger `carton.pack` got them as well.
        check: The report of the check: the `runner` that loaded the model, and what `Model.self_test` returns; None without a check.
            Without self-tests, `zeros` says whether the model `ran` on inputs of zeros, or its `error`.
    """

    path: str
    manifest_sha256: str
    warnings: list[str]
    check: dict[str, Any] | None


@dataclass(frozen=True)
class LeftOut:
    """A file that `carton.shrink` left out.

    Attributes:
        path: Its path in the carton.
        sha256: Its SHA-256.
        size: Its size, in bytes.
        saved: The path of the saved file; None if it was not saved.
    """

    path: str
    sha256: str
    size: int
    saved: str | None


@dataclass(frozen=True)
class Shrunk:
    """The result of `carton.shrink`.

    Attributes:
        path: The smaller carton.
        manifest_sha256: Its hash, which is that of the whole carton.
        left_out: The files that it lacks, by path.
    """

    path: str
    manifest_sha256: str
    left_out: list[LeftOut]


@dataclass(frozen=True)
class Resolved:
    """The result of `carton.resolve`.

    Attributes:
        path: The whole carton.
        manifest_sha256: Its hash, which is that of the smaller carton.
    """

    path: str
    manifest_sha256: str


@dataclass(frozen=True)
class VerifyReport:
    """The result of `Package.verify`.

    Attributes:
        ok: Whether every file is as the carton's manifest says, and the signature is not broken, if one was found.
        manifest_sha256: The hash of the carton; None for a model that is not in one.
        files: The number of files that were hashed.
        bytes: The size of these files.
        bad: The path of each damaged file, and what is wrong with it.
        not_fetched: The paths of the files that the carton only links to and that were not fetched.
        warnings: What is unusual about the carton.
        signature_status: What is known of its signature, as in `Package.signature_status`.
    """

    ok: bool
    manifest_sha256: str | None
    files: int
    bytes: int
    bad: list[tuple[str, str]]
    not_fetched: list[str]
    warnings: list[str]
    signature_status: SignatureStatus | None = None


@dataclass(frozen=True)
class SignatureStatus:
    """What is known of a carton's signature, from `Package.signature_status`.

    Attributes:
        status: `trusted`: a trusted signer signed exactly this carton. `untrusted`: there is a signature, by somebody whom neither the caller
            nor the configuration trusts. `broken`: it is malformed, or for another carton. `unsigned`: there is none.
        place: Where it was looked for.
        signer: Who signed, in words; None if nothing says so. Only that of a trusted signature is more than a claim.
        reason: Why the signature is not accepted; None if it is, or if there is none.
    """

    status: Literal["trusted", "untrusted", "broken", "unsigned"]
    place: str
    signer: str | None
    reason: str | None


@dataclass(frozen=True)
class Signed:
    """The result of `carton.sign`.

    Attributes:
        path: The signature.
        manifest_sha256: The hash of the carton.
        key: The SHA-256 of the public key's PEM text, by which signatures name their key.
        identities: The names in the key's certificate.
    """

    path: str
    manifest_sha256: str
    key: str
    identities: list[str]


@dataclass(frozen=True)
class Keys:
    """The result of `carton.keygen`.

    Attributes:
        private_key: The file of the private key.
        public_key: The file of the public key.
        key: The SHA-256 of the public key's PEM text, by which signatures name their key.
        encrypted: Whether the private key is encrypted.
    """

    private_key: str
    public_key: str
    key: str
    encrypted: bool


@dataclass(frozen=True)
class Runner:
    """A runner that is available, from `carton.runners`.

    Attributes:
        name: Its name, such as `onnx`.
        framework_version: The version of its framework.
        compat_version: The version of the structure of models that it reads.
        folder: Where it is installed; None for the runners in the program `carton`.
    """

    name: str
    framework_version: str
    compat_version: int
    folder: str | None


@dataclass(frozen=True)
class CachedCarton:
    """A carton in the cache.

    Attributes:
        manifest_sha256: Its hash.
        model_name: The name of its model.
        address: The URL where it was last found; None for a carton that was loaded from a file.
        path: The file or folder from which it was last loaded, if any.
        bytes: The size of its files in the cache. Files that several cartons use count for each.
        last_used: When it was last used, in seconds since 1970.
        in_use: Whether a process has it loaded.
    """

    manifest_sha256: str
    model_name: str | None
    address: str | None
    path: str | None
    bytes: int
    last_used: float
    in_use: bool


@dataclass(frozen=True)
class CacheListing:
    """What the cache holds, from `carton.cache.list`.

    Attributes:
        path: Its folder.
        bytes: Its size.
        cartons: The cartons, the last used first.
    """

    path: str
    bytes: int
    cartons: list[CachedCarton]


@dataclass(frozen=True)
class Pruned:
    """What was deleted from the cache.

    Attributes:
        cartons: The deleted cartons.
        freed: The bytes that were freed.
        remaining: The bytes that remain.
    """

    cartons: list[CachedCarton]
    freed: int
    remaining: int
