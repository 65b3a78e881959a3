"""What operations return: plain classes without methods. Paths are strings, sizes are in bytes, and hashes in hexadecimal digits.

`dataclasses.asdict` makes dicts of them that `json.dumps` takes. Their representations leave out what is long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class OutputResult:
    """How an output of a self-test compares with the expected one.

    Attributes:
        name: The name of the output.
        ok: Whether it is within the tolerance.
        max_abs_diff: The largest absolute difference; None where no numbers were compared.
        max_rel_diff: The largest difference relative to the expected value; None where no numbers were compared.
        detail: What differs most, and where; None where nothing does.
    """

    name: str
    ok: bool
    max_abs_diff: float | None
    max_rel_diff: float | None
    detail: str | None


@dataclass(frozen=True)
class SelfTestResult:
    """The result of one self-test.

    Attributes:
        name: The name of the test.
        outcome: `passed`: every expected output was close to the actual one. `ran`: no output is expected, so nothing was compared. `failed`:
            the call failed, or an output differs.
        seconds: How long the call took.
        outputs: A result for each expected output; empty if the call failed.
        error: Why the call failed; None if it did not.
        hint: What can be done about that.
    """

    name: str
    outcome: Literal["passed", "ran", "failed"]
    seconds: float = field(repr=False)
    outputs: list[OutputResult] = field(repr=False)
    error: str | None
    hint: str | None = field(repr=False)


@dataclass(frozen=True)
class SelfTestReport:
    """The result of `Model.self_test`.

    Attributes:
        ok: Whether no test failed. It is true of a carton without tests.
        passed: The number of tests whose outputs were compared, and are close to the expected ones.
        ran: The number of tests that ran, and expect no outputs.
        failed: The number of tests that failed.
        tests: The result of each test, in the order of the carton.
    """

    ok: bool
    passed: int
    ran: int
    failed: int
    tests: list[SelfTestResult] = field(repr=False)


@dataclass(frozen=True)
class ZeroRun:
    """A run of a packed model on inputs of zeros.

    Attributes:
        ok: Whether the model ran. It need not take zeros.
        error: Why it did not run; None if it did.
    """

    ok: bool
    error: str | None


@dataclass(frozen=True)
class PackCheck:
    """The check of a packed model: it was loaded, its signature does not contradict it, and no self-test failed.

    Attributes:
        runner: Name and version of the runner that loaded the model.
        self_test: The report of the self-tests, as `Model.self_test` returns it.
        zeros: The run on zeros; None if there are self-tests, or if no outputs are declared.
    """

    runner: str
    self_test: SelfTestReport
    zeros: ZeroRun | None


@dataclass(frozen=True)
class Packed:
    """The result of `carton.pack`.

    Attributes:
        path: The carton.
        manifest_sha256: The hash of the carton, which `carton.load(expect=…)` takes.
        not_packed: Paths of what was left out of the model's folder.
        warnings: What may be unintended, one sentence each. The logger `carton.pack` got them as well.
        check: What the check found; None without a check.
    """

    path: str
    manifest_sha256: str
    not_packed: list[str]
    warnings: list[str]
    check: PackCheck | None


@dataclass(frozen=True)
class Recognized:
    """What runs a model, from `carton.recognize`.

    Attributes:
        runner: The name of the runner.
        template: The name of the Python model that runs the files of a framework, such as `xgboost`; None if the runner reads them itself.
        kind: What these files are, such as `an XGBoost model (JSON)`.
        requirements: The packages that the Python model needs.
    """

    runner: str
    template: str | None
    kind: str | None
    requirements: list[str]


@dataclass(frozen=True)
class RequiredRunner:
    """The runner that a carton requires, from `Package.info`.

    Attributes:
        name: Its name, such as `onnx`.
        framework_version: The versions of the framework that run the model, such as `>=1.24.0, <2`.
        compat_version: The version of the structure of the model's files.
        options: Options of the runner.
        env: Environment variables that the carton sets for the model.
    """

    name: str
    framework_version: str
    compat_version: int
    options: dict[str, Any]
    env: dict[str, str]


@dataclass(frozen=True)
class SandboxRequest:
    """What a carton asks for beyond its own files, from `Package.info`. It gets what the caller allows, in `carton.Sandbox`.

    Attributes:
        network: Whether it asks for the network.
        read: Absolute paths that it asks to read.
    """

    network: bool
    read: list[str]


@dataclass(frozen=True)
class TensorInfo:
    """A declared input or output as plain data, from `Package.info`. `Package.inputs` and `Package.outputs` have them as `carton.TensorSpec`.

    Attributes:
        name: The name that callers use.
        dtype: The element type, such as `float32` or `bool`; `string` for texts, `bytes` for bytes.
        shape: A list of sizes (`int`), symbols (`str`) and `*` for any size; or one text for the whole shape.
        description: What it is, in Markdown.
        internal_name: The name inside the model, if it differs.
        optional: Whether a call may leave the input out.
    """

    name: str
    dtype: str
    shape: str | list[int | str]
    description: str | None
    internal_name: str | None
    optional: bool


@dataclass(frozen=True)
class FileInfo:
    """A file of a carton, from `Package.info`.

    Attributes:
        path: Its path in the carton.
        sha256: Its SHA-256; None in a model that is not in a carton.
        size: Its length; None if it is linked and was not fetched.
        stored: The bytes that it takes in the carton; None if it is not in the carton.
        method: How it is compressed: `stored`, `zstd` or `deflate`; None if it is in no archive.
        linked: Whether it is not in the carton, which links to it.
        symlink: The target of a symbolic link; None for any other file.
    """

    path: str
    sha256: str | None
    size: int | None
    stored: int | None
    method: str | None
    linked: bool
    symlink: str | None


@dataclass(frozen=True)
class Info:
    """Everything that is known of a carton without reading a file of the model, from `Package.info`.

    Attributes:
        manifest_sha256: The hash of the carton; None for a model that is not in one.
        model_name: The name of the model.
        short_description: One line about it.
        model_description: What it is, in Markdown.
        license: The license, as an SPDX expression where one exists.
        repository: The URL of its sources.
        homepage: The URL of its home page.
        required_platforms: The target triples that it runs on; empty for all.
        card: What its author states beyond that, by the names of `[card]` in carton.toml; of `misc/README.md` where carton.toml does not say it.
        runner: The runner that it requires.
        inputs: The declared inputs, in order.
        outputs: The declared outputs, in order.
        self_tests: The names of the self-tests.
        examples: The names of the examples.
        sandbox: What it asks for beyond its own files.
        signing: Who signed it; None if that was not looked for.
        warnings: What is unusual about the carton, one sentence each.
        files: All files but MANIFEST and LINKS, by path.
        spec_version: The version of the format.
    """

    manifest_sha256: str | None
    model_name: str | None
    short_description: str | None
    model_description: str | None = field(repr=False)
    license: str | None
    repository: str | None = field(repr=False)
    homepage: str | None = field(repr=False)
    required_platforms: list[str] = field(repr=False)
    card: dict[str, Any] = field(repr=False)
    runner: RequiredRunner = field(repr=False)
    inputs: list[TensorInfo] = field(repr=False)
    outputs: list[TensorInfo] = field(repr=False)
    self_tests: list[str] = field(repr=False)
    examples: list[str] = field(repr=False)
    sandbox: SandboxRequest = field(repr=False)
    signing: SigningStatus | None = field(repr=False)
    warnings: list[str] = field(repr=False)
    files: list[FileInfo] = field(repr=False)
    spec_version: int = field(repr=False)


@dataclass(frozen=True)
class MapReport:
    """The result of `Model.map_to` and `MappedRows.write`.

    Attributes:
        path: The file with the rows.
        rows: The number of rows.
        calls: The number of calls of the model that they took.
    """

    path: str
    rows: int
    calls: int


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
        ok: Whether every file is as the carton's manifest says, and its signing bundle is not broken, if one was found.
        manifest_sha256: The hash of the carton; None for a model that is not in one.
        files: The number of files that were hashed.
        bytes: The size of these files.
        bad: The path of each damaged file, and what is wrong with it.
        not_fetched: The paths of the files that the carton only links to and that were not fetched.
        warnings: What is unusual about the carton.
        signing: Who signed it, as in `Package.signing`; None if that was not looked for.
    """

    ok: bool
    manifest_sha256: str | None
    files: int
    bytes: int
    bad: list[tuple[str, str]]
    not_fetched: list[str]
    warnings: list[str]
    signing: SigningStatus | None = None


@dataclass(frozen=True)
class SigningStatus:
    """Who signed a carton, from `Package.signing`.

    Attributes:
        status: `trusted`: a trusted signer signed exactly this carton. `untrusted`: there is a signing bundle, by somebody whom neither the
            caller nor the configuration trusts. `broken`: the bundle is malformed, or for another carton. `unsigned`: there is none.
        place: Where it was looked for.
        signer: Who signed, in words; None if nothing says so. Only that of a trusted bundle is more than a claim.
        reason: Why the bundle is not accepted; None if it is, or if there is none.
    """

    status: Literal["trusted", "untrusted", "broken", "unsigned"]
    place: str
    signer: str | None
    reason: str | None


@dataclass(frozen=True)
class Signed:
    """The result of `carton.sign`.

    Attributes:
        path: The signing bundle.
        manifest_sha256: The hash of the carton.
        key: The SHA-256 of the public key's PEM text, by which bundles name their key.
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
        key: The SHA-256 of the public key's PEM text, by which bundles name their key.
        encrypted: Whether the private key is encrypted.
    """

    private_key: str
    public_key: str
    key: str
    encrypted: bool


@dataclass(frozen=True)
class Pushed:
    """The result of `carton.push`.

    Attributes:
        artifact: The name of the artifact with its digest, which always means this one.
        digest: The digest of the artifact.
        manifest_sha256: The hash of the carton.
        blobs: The number of its blobs: the large files, and one for all others.
        sent: The bytes that were sent.
        mounted: The bytes that the registry took over from other repositories.
        present: The bytes that the repository had already.
        signed: Whether a signing bundle was pushed too.
    """

    artifact: str
    digest: str
    manifest_sha256: str
    blobs: int
    sent: int
    mounted: int
    present: int
    signed: bool


@dataclass(frozen=True)
class Pulled:
    """The result of `carton.pull`.

    Attributes:
        path: The carton.
        manifest_sha256: Its hash.
        bundle: The signing bundle that was written beside it; None if it has none.
    """

    path: str
    manifest_sha256: str
    bundle: str | None


@dataclass(frozen=True)
class Tagged:
    """The result of `carton.tag`.

    Attributes:
        artifact: The name with the new tag.
        digest: The digest of the artifact.
    """

    artifact: str
    digest: str


@dataclass(frozen=True)
class TagInfo:
    """A tag of a repository, from `carton.tags`.

    Attributes:
        tag: The tag.
        artifact: The name with the tag, which `carton.load` and `carton.pull` take.
        digest: The digest of the artifact; None if the registry does not give it to the user.
        manifest_sha256: The hash of the carton; None if the artifact is not one.
        size: The bytes of all its blobs; None if the artifact is not a carton.
    """

    tag: str
    artifact: str
    digest: str | None
    manifest_sha256: str | None
    size: int | None


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
