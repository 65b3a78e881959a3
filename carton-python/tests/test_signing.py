"""Keys, signing, and who must have signed a carton."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import carton


@pytest.fixture
def unsigned(tmp_path: Path, digits_path: Path) -> Path:
    """A carton, with the keys `key.pem` and `other.pem` beside it."""
    shutil.copy(digits_path, tmp_path / "digits.carton")
    for name in ("key.pem", "other.pem"):
        carton.keygen(tmp_path / name)
    return tmp_path / "digits.carton"


@pytest.fixture
def signed(unsigned: Path) -> Path:
    """The same carton, signed with `key.pem`."""
    carton.sign(unsigned, key=unsigned.with_name("key.pem"))
    return unsigned


def test_a_carton_is_loaded_by_the_key_that_signed_it(signed: Path) -> None:
    key = signed.with_name("key.pub.pem")
    with carton.load(signed, trusted_keys=[key]) as model:
        assert model(image=np.zeros((1, 1, 8, 8), np.float32))
        status = model.package.signing
        assert status is not None and status.status == "trusted"
    assert carton.open(signed, trusted_keys=[key.read_text()]).inputs
    moved = shutil.move(f"{signed}.sig", signed.with_name("elsewhere"))
    assert carton.open(signed, trusted_keys=[key], bundle=moved).inputs
    with pytest.raises(carton.UntrustedError, match="is not signed, and must be") as raised:
        carton.load(signed, trusted_keys=[key])
    assert isinstance(raised.value, PermissionError)


def test_other_signers_are_refused(signed: Path) -> None:
    with pytest.raises(carton.UntrustedError, match="by no trusted key"):
        carton.load(signed, trusted_keys=[signed.with_name("other.pub.pem")])
    with pytest.raises(carton.InvalidInputError, match="not a usable public key"):
        carton.open(signed, trusted_keys=[signed.with_name("key.pem")])
    with pytest.raises(carton.MachineError, match="none.pem") as missing:
        carton.open(signed, trusted_keys=["none.pem"])
    assert missing.value.errno == errno.ENOENT and missing.value.filename == "none.pem"
    with pytest.raises(carton.InvalidInputError, match="expected a list"):
        carton.open(signed, trusted_keys="key.pub.pem")
    with pytest.raises(carton.Error, match="no key, certificate or identity is trusted"):
        carton.open(signed, require_signed=True)


def test_signing_says_what_was_signed(unsigned: Path) -> None:
    signed = carton.sign(unsigned, key=unsigned.with_name("key.pem"), expect=carton.open(unsigned).manifest_sha256)
    assert signed.path == f"{unsigned}.sig"
    assert signed.manifest_sha256 == carton.open(unsigned).manifest_sha256
    assert signed.identities == []
    first = Path(signed.path).read_bytes()
    text = unsigned.with_name("key.pem").read_text()
    output = unsigned.with_name("again.sig")
    assert carton.sign(unsigned, key=text, output=output).path == str(output)
    assert output.read_bytes() == first
    carton.open(unsigned).unpack(unsigned.with_name("folder"))
    folder = carton.sign(f"{unsigned.with_name('folder')}/", key=text)
    assert folder.path == str(unsigned.with_name("folder.sig")) and Path(folder.path).read_bytes() == first


def test_signing_is_refused_for_a_reason(unsigned: Path) -> None:
    key = unsigned.with_name("key.pem")
    with pytest.raises(carton.InvalidInputError, match="expected a PEM block with a private key"):
        carton.sign(unsigned, key=unsigned.with_name("key.pub.pem"))
    with pytest.raises(carton.InvalidInputError, match="no certificate"):
        carton.sign(unsigned, key=key, certificates=[unsigned.with_name("key.pub.pem")])
    with pytest.raises(carton.IntegrityError):
        carton.sign(unsigned, key=key, expect="0" * 64)
    with pytest.raises(carton.InvalidInputError, match="the carton is on a server: name the file to write"):
        carton.sign("https://example.org/a.carton", key=key)
    with pytest.raises(carton.MachineError, match="none/a.sig"):
        carton.sign(unsigned, key=key, output=unsigned.with_name("none") / "a.sig")
    with pytest.raises(carton.MachineError):
        carton.sign(unsigned, key="none.pem")
    assert not Path(f"{unsigned}.sig").exists()


def test_keys_are_never_replaced(tmp_path: Path) -> None:
    keys = carton.keygen(tmp_path / "key.pem", curve="p384")
    assert (keys.private_key, keys.public_key) == (str(tmp_path / "key.pem"), str(tmp_path / "key.pub.pem"))
    assert len(keys.key) == 64 and not keys.encrypted
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "key.pem").read_bytes()
    with pytest.raises(carton.MachineError) as raised:
        carton.keygen(tmp_path / "key.pem")
    assert raised.value.errno == errno.EEXIST and isinstance(raised.value, OSError)
    assert (tmp_path / "key.pem").read_bytes() == before
    (tmp_path / "second.pub.pem").touch()
    with pytest.raises(carton.MachineError):
        carton.keygen(os.fsencode(tmp_path / "second.pem"))
    assert not (tmp_path / "second.pem").exists()
    with pytest.raises(carton.InvalidInputError, match="expected the curve"):
        carton.keygen(tmp_path / "third.pem", curve="p521")  # type: ignore[arg-type]
    assert not (tmp_path / "third.pem").exists()


def test_keys_have_passwords(unsigned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safe = unsigned.with_name("safe.pem")
    assert carton.keygen(safe, password="secret").encrypted
    assert "ENCRYPTED" in safe.read_text()
    with pytest.raises(carton.InvalidInputError, match="no password was given"):
        carton.sign(unsigned, key=safe)
    with pytest.raises(carton.InvalidInputError, match="the password is wrong"):
        carton.sign(unsigned, key=safe, password="wrong")
    monkeypatch.setenv("CARTON_KEY_PASSWORD", "secret")
    carton.sign(unsigned, key=safe)
    assert carton.keygen(unsigned.with_name("too.pem")).encrypted


def test_who_signed_is_shown(unsigned: Path) -> None:
    def status(**options: object) -> carton.SigningStatus:
        found = carton.open(unsigned, **options).signing  # type: ignore[arg-type]
        assert found is not None
        return found

    place = f"{unsigned}.sig"
    assert status() == carton.SigningStatus("unsigned", place, None, None)
    signed = carton.sign(unsigned, key=unsigned.with_name("key.pem"))
    trusted = carton.SigningStatus("trusted", place, f"key {signed.key}", None)
    assert status(trusted_keys=[unsigned.with_name("key.pub.pem")]) == trusted
    assert f"key {signed.key}" in carton.open(unsigned, trusted_keys=[unsigned.with_name("key.pub.pem")])._repr_html_()
    assert "signed by" not in carton.open(unsigned)._repr_html_()
    untrusted = status()
    assert (untrusted.status, untrusted.signer) == ("untrusted", f"key {signed.key}")
    assert untrusted.reason is not None and "no key is trusted" in untrusted.reason
    package = carton.open(unsigned)
    assert package.info().signing == untrusted
    report = package.verify()
    assert report.ok and report.signing == untrusted
    # A bundle that signs another carton is refused by every rule of trust.
    bundle = json.loads(Path(place).read_text())
    bundle["dsseEnvelope"]["payload"] = "e30="
    Path(place).write_text(json.dumps(bundle))
    report = carton.open(unsigned).verify()
    assert not report.ok and report.bad == [] and report.signing is not None
    assert report.signing.status == "broken"


def test_the_command_and_the_module_do_the_same(unsigned: Path) -> None:
    program = shutil.which("carton", path=str(Path(sys.executable).parent)) or shutil.which("carton")
    if program is None:
        pytest.skip("the command is not in PATH")

    def run(*arguments: str) -> dict[str, object]:
        ended = subprocess.run([program, *arguments, "--json"], cwd=unsigned.parent, check=True, capture_output=True)
        result: dict[str, object] = json.loads(ended.stdout)
        return result

    run("sign", "digits.carton", "--key", "key.pem", "-o", "command.sig")
    path = carton.sign(unsigned, key=unsigned.with_name("key.pem")).path
    assert Path(path).read_bytes() == unsigned.with_name("command.sig").read_bytes()
    shown = run("info", "digits.carton", "--key", "key.pub.pem")["signing"]
    status = carton.open(unsigned, trusted_keys=[unsigned.with_name("key.pub.pem")]).signing
    assert isinstance(shown, dict) and status is not None
    assert (shown["status"], shown["signer"]) == (status.status, status.signer)


def test_rules_of_the_configuration_apply(signed: Path) -> None:
    """Read from a configuration of its own, in a process of its own."""
    config = signed.with_name("config.toml")
    script = "import carton, sys; print(carton.open(sys.argv[1]).signing.status)"
    for key, expected in (("key.pub.pem", "trusted"), ("other.pub.pem", "UntrustedError")):
        config.write_text(f'[[trust]]\nfor = ["**"]\nkeys = ["{key}"]\n')
        environment = dict(os.environ, CARTON_CONFIG_PATH=str(config))
        ended = subprocess.run(
            [sys.executable, "-c", script, str(signed)], env=environment, capture_output=True, text=True
        )
        assert expected in ended.stdout + ended.stderr
