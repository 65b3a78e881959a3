"""Whose signature a carton must have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import carton


@pytest.fixture
def signed(tmp_path: Path, digits_path: Path) -> Path:
    """A signed carton, with the keys `key.pem` and `other.pem` beside it."""
    program = shutil.which("carton", path=str(Path(sys.executable).parent)) or shutil.which("carton")
    if program is None:
        pytest.skip("the command is not in PATH")
    shutil.copy(digits_path, tmp_path / "digits.carton")
    for arguments in (["keygen", "-o", "key.pem"], ["keygen", "-o", "other.pem"], ["sign", "digits.carton", "--key", "key.pem"]):
        subprocess.run([program, *arguments], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "digits.carton"


def test_a_carton_is_loaded_by_the_key_that_signed_it(signed: Path) -> None:
    key = signed.with_name("key.pub.pem")
    with carton.load(signed, trusted_keys=[key]) as model:
        assert model(image=np.zeros((1, 1, 8, 8), np.float32))
    assert carton.open(signed, trusted_keys=[key.read_text()]).inputs
    moved = shutil.move(f"{signed}.sig", signed.with_name("elsewhere"))
    assert carton.open(signed, trusted_keys=[key], signature_file=moved).inputs
    with pytest.raises(carton.UntrustedError, match="is not signed, and a signature is required") as raised:
        carton.load(signed, trusted_keys=[key])
    assert isinstance(raised.value, PermissionError)


def test_other_signers_are_refused(signed: Path) -> None:
    with pytest.raises(carton.UntrustedError, match="by no trusted key"):
        carton.load(signed, trusted_keys=[signed.with_name("other.pub.pem")])
    with pytest.raises(carton.InvalidInputError, match="not a usable public key"):
        carton.open(signed, trusted_keys=[signed.with_name("key.pem")])
    with pytest.raises(FileNotFoundError):
        carton.open(signed, trusted_keys=["none.pem"])
    with pytest.raises(carton.Error, match="no key, certificate or identity is trusted"):
        carton.open(signed, require_signature=True)
