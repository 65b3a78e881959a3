"""Cartons in a registry: Debian's `docker-registry`, on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

import carton


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of the registry, which keeps what tests push."""
    program = shutil.which("docker-registry")
    if program is None:
        assert "CI" not in os.environ, "docker-registry is not installed"
        pytest.skip("docker-registry is not installed")
    folder = tmp_path_factory.mktemp("registry")
    deadline = time.monotonic() + 30
    # Another process may take the port between its choice and the registry's start.
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
        storage = f"storage:\n  filesystem:\n    rootdirectory: {folder}/data\n"
        (folder / "config.yml").write_text(f"version: 0.1\nlog:\n  level: error\n{storage}http:\n  addr: {address}\n")
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([program, "serve", "config.yml"], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            if answers(address, process, deadline):
                yield address
                return
        finally:
            process.kill()
            process.wait()
        assert time.monotonic() < deadline, (folder / "log").read_text()


def answers(address: str, process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether the registry takes connections before it ends, or the time is up."""
    host, _, port = address.partition(":")
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return True
        except OSError:
            time.sleep(0.01)
    return False


def test_a_carton_is_pushed_tagged_listed_and_pulled(host: str, digits_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"oci://{host}/team/digits"
    sha = carton.open(digits_path).manifest_sha256
    stages: list[str] = []
    pushed = carton.push(digits_path, f"{name}:1", min_size=1000, progress=lambda **event: stages.append(event["stage"]))
    assert stages and pushed.manifest_sha256 == sha and not pushed.signed
    assert len(pushed.digest) == 64 and pushed.artifact == f"{name}@sha256:{pushed.digest}"
    assert (pushed.mounted, pushed.present) == (0, 0) and pushed.sent > 10_000 and pushed.blobs > 1
    # What is there is not sent again.
    again = carton.push(digits_path, f"{name}:2", min_size=1000, expect=sha)
    assert (again.sent, again.present, again.digest) == (0, pushed.sent, pushed.digest)
    # Another repository takes it over.
    other = carton.push(f"{name}:1", f"oci://{host}/team/other:1", min_size=1000, mount_from=["team/digits"])
    assert other.mounted > 0 and other.manifest_sha256 == sha

    assert carton.tag(f"{name}:1", "stable") == carton.Tagged(f"{name}:stable", pushed.digest)
    listed = {found.tag: found for found in carton.tags(name)}
    assert set(listed) == {"1", "2", "stable"}
    assert listed["stable"] == carton.TagInfo("stable", f"{name}:stable", pushed.digest, sha, pushed.sent)

    pulled = carton.pull(pushed.artifact, tmp_path / "a.carton", expect=sha, compression="stored")
    assert pulled == carton.Pulled(str(tmp_path / "a.carton"), str(sha), None)
    report = carton.open(pulled.path).verify()
    assert report.ok and report.manifest_sha256 == sha
    monkeypatch.chdir(tmp_path)
    assert carton.pull(f"{name}:stable").path == "digits.carton" and Path("digits.carton").is_file()
    with carton.load(f"{name}:stable", expect=sha) as model:
        assert model.self_test().ok


def test_signing_bundles_go_along(host: str, digits_path: Path, tmp_path: Path) -> None:
    path, name = tmp_path / "digits.carton", f"oci://{host}/team/signed:1"
    shutil.copy(digits_path, path)
    keys, others = carton.keygen(tmp_path / "key.pem"), carton.keygen(tmp_path / "other.pem")
    carton.sign(path, key=keys.private_key)
    with pytest.raises(carton.UntrustedError):
        carton.push(path, name, trusted_keys=[others.public_key])
    assert carton.push(path, name, trusted_keys=[keys.public_key]).signed
    with pytest.raises(carton.UntrustedError):
        carton.pull(name, tmp_path / "no.carton", trusted_keys=[others.public_key])
    assert not (tmp_path / "no.carton").exists()
    pulled = carton.pull(name, tmp_path / "pulled.carton", trusted_keys=[keys.public_key], require_signed=True)
    assert pulled.bundle == f"{pulled.path}.sig"
    signing = carton.open(pulled.path, trusted_keys=[keys.public_key]).signing
    assert signing is not None and signing.status == "trusted"


def test_what_is_refused(host: str, digits_path: Path, tmp_path: Path) -> None:
    def check(kind: type[carton.Error], text: str, function: Any, *arguments: Any, **options: Any) -> None:
        with pytest.raises(kind, match=text):
            function(*arguments, **options)

    name = f"oci://{host}/team/refused:1"
    for wrong in ("digits:1", "https://example.com/a", "oci://example.com/UPPER"):
        check(carton.InvalidInputError, "is not the name of an artifact", carton.push, digits_path, wrong)
        check(carton.InvalidInputError, "is not the name of an artifact", carton.pull, wrong)
        check(carton.InvalidInputError, "is not the name of an artifact", carton.tag, wrong, "a")
        check(carton.InvalidInputError, "is not the name of an artifact", carton.tags, wrong)
    check(carton.InvalidInputError, "is not a tag", carton.tag, name, "a b")
    check(carton.InvalidInputError, "compression", carton.pull, name, compression="best")
    check(carton.MachineError, "missing", carton.push, tmp_path / "missing.carton", name)
    check(carton.IntegrityError, "expected manifest hash", carton.push, digits_path, name, expect="0" * 64)
    check(carton.NetworkError, "refused", carton.pull, name, tmp_path / "a.carton")
    check(carton.NetworkError, "refused", carton.tag, name, "stable")
    check(carton.NetworkError, "refused", carton.tags, f"oci://{host}/team/refused")
    assert list(tmp_path.iterdir()) == []
