"""Keys, and who signed cartons."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Literal, Sequence

from . import _carton, _progress
from ._errors import machine_error
from ._options import key_texts
from ._paths import AnyPath, location_text
from ._results import Keys, Signed

#: The variable with the password of a private key, as for the command.
_PASSWORD = "CARTON_KEY_PASSWORD"


def _password(given: str | None) -> str | None:
    return given if given is not None else os.environ.get(_PASSWORD) or None


def sign(
    location: AnyPath,
    *,
    key: str | os.PathLike[str],
    password: str | None = None,
    certificates: Sequence[str | os.PathLike[str]] = (),
    expect: str | None = None,
    output: AnyPath | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Signed:
    """Signs a carton: its hash, and so each of its files. Writes a Sigstore bundle; the carton is not changed, and no file of it is read.

    Signing without a key of one's own (keyless, with Sigstore) is not available yet. `model_signing sign sigstore` of PyPI's
    model-signing makes such bundles of unpacked cartons.

    Args:
        location: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
            It may be packed or unpacked.
        key: The private key, as a path or as PEM text.
        password: The password of an encrypted key. By default that in the variable CARTON_KEY_PASSWORD.
        certificates: The key's certificate and those that lead to a root, as paths or as PEM texts.
        expect: The hash that the carton must have, in hexadecimal digits.
        output: The bundle to write. By default it is beside the carton, under its name and `.sig`, where `load` and `open` look for it.
        progress: As in `load`.

    Raises:
        InvalidInputError: The key cannot be used, its password is missing or wrong, or the certificate is for another key.
        IntegrityError: The carton is malformed, or not the expected one.
        MachineError: A file cannot be read or written.

        >>> keys = carton.keygen("signer.pem")
        >>> signed = carton.sign("digits.carton", key="signer.pem")
        >>> signed.path
        'digits.carton.sig'
        >>> carton.open("digits.carton", trusted_keys=[keys.public_key]).signing.status
        'trusted'
    """
    (key_text,) = key_texts([key])
    with _progress.reporting(progress) as callback:
        return _carton.sign(
            location_text(location),
            key=key_text,
            password=_password(password),
            certificates=key_texts(certificates),
            expect=expect,
            output=output,
            progress=callback,
        )


def keygen(
    path: AnyPath = "carton-key.pem", *, curve: Literal["p256", "p384"] = "p256", password: str | None = None
) -> Keys:
    """Makes a pair of keys: the private one at `path`, for its owner alone to read, and the public one beside it, with `.pub.pem` at its end.

    Args:
        path: The file of the private key. A file that exists is not replaced.
        curve: The curve that the key is on.
        password: Encrypts the private key. By default that in the variable CARTON_KEY_PASSWORD; without it, the key is not encrypted.

    Raises:
        InvalidInputError: There is no such curve.
        MachineError: One of the files exists (its `errno` is `errno.EEXIST`), or cannot be written.

        >>> keys = carton.keygen("release.pem", password="secret")
        >>> keys.public_key, keys.encrypted
        ('release.pub.pem', True)
    """
    private = Path(os.fsdecode(path))
    public = private.with_suffix(".pub.pem")
    password = _password(password)
    private_text, public_text, fingerprint = _carton.generate_key(curve, password)
    # The public key can be made of the private one, so the private one is written first.
    try:
        _create(private, private_text, 0o600)
        try:
            _create(public, public_text, 0o644)
        except OSError:
            private.unlink()
            raise
    except OSError as error:
        raise machine_error(error) from error
    return Keys(str(private), str(public), fingerprint, password is not None)


def _create(path: Path, text: str, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="ascii") as file:
        file.write(text)
