"""Cartons in registries of container images."""

from __future__ import annotations

import os
from typing import Callable, Sequence

from . import _carton, _progress
from ._options import key_texts
from ._paths import AnyPath, location_text
from ._results import Pulled, Pushed, TagInfo, Tagged


def push(
    location: AnyPath,
    artifact: str,
    *,
    min_size: int | None = None,
    mount_from: Sequence[str] = (),
    expect: str | None = None,
    allow_file_links: bool = False,
    trusted_keys: Sequence[str | os.PathLike[str]] = (),
    bundle: AnyPath | None = None,
    require_signed: bool | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Pushed:
    """Pushes a carton to a registry of container images, with its signing bundle if there is one beside it.

    What the registry has already is not sent. The tag is set last: until then it means what it meant before. The logins are those of
    `docker login` and `podman login`.

    Args:
        location: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
        artifact: Where it is put: `oci://HOST/REPOSITORY:TAG`.
        min_size: The size from which a file is a blob of its own, in bytes; 64 KiB by default.
        mount_from: Other repositories of the registry that may have some of the blobs.
        expect: The hash that the carton must have, in hexadecimal digits.
        allow_file_links: Whether LINKS of a local carton may name local files.
        trusted_keys: As in `load`.
        bundle: As in `load`.
        require_signed: As in `load`.
        progress: As in `load`.

    Raises:
        InvalidInputError: The name of the artifact is not one.
        IntegrityError: The carton is damaged, or not the expected one.
        NetworkError: The registry cannot be reached, or refuses the login or the carton.

        >>> pushed = carton.push("digits.carton", "oci://registry.example.com/team/digits:1.0")  # doctest: +SKIP
        >>> pushed.artifact  # doctest: +SKIP
        'oci://registry.example.com/team/digits@sha256:…'
    """
    with _progress.reporting(progress) as callback:
        return _carton.push(
            location_text(location),
            artifact,
            min_size=min_size,
            mount_from=list(mount_from),
            expect=expect,
            allow_file_links=allow_file_links,
            trusted_keys=key_texts(trusted_keys),
            bundle=None if bundle is None else location_text(bundle),
            require_signed=require_signed,
            progress=callback,
        )


def pull(
    artifact: str,
    output: AnyPath | None = None,
    *,
    compression: str | None = None,
    expect: str | None = None,
    trusted_keys: Sequence[str | os.PathLike[str]] = (),
    bundle: AnyPath | None = None,
    require_signed: bool | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Pulled:
    """Writes a carton of a registry to a file, with all its files, and its signing bundle beside it.

    It has the same hash as the carton that was pushed. `load` and `open` take the name of an artifact too, and fetch only what they need.

    Args:
        artifact: The name of the artifact: `oci://HOST/REPOSITORY:TAG`, or `oci://HOST/REPOSITORY@sha256:DIGEST`.
        output: The carton to be written. By default it has the last part of the repository's name, and `.carton`, in the working folder.
        compression: How the large files are compressed: `auto` (the default), `stored`, `zstd` or `deflate`.
        expect: The hash that the carton must have, in hexadecimal digits.
        trusted_keys: As in `load`.
        bundle: As in `load`.
        require_signed: As in `load`.
        progress: As in `load`.

    Raises:
        InvalidInputError: The name of the artifact is not one.
        NetworkError: There is no such artifact, or the registry cannot be reached or refuses the login.
        IntegrityError: It is not a carton, or not the expected one, or it is damaged.
        MachineError: The output cannot be written. The file that was there before stays.

        >>> carton.pull("oci://registry.example.com/team/digits:1.0").path  # doctest: +SKIP
        'digits.carton'
    """
    with _progress.reporting(progress) as callback:
        return _carton.pull(
            artifact,
            None if output is None else os.fspath(output),
            compression=compression,
            expect=expect,
            trusted_keys=key_texts(trusted_keys),
            bundle=None if bundle is None else location_text(bundle),
            require_signed=require_signed,
            progress=callback,
        )


def tag(artifact: str, tag: str, *, progress: Callable[..., None] | bool | None = None) -> Tagged:
    """Gives a carton of a registry one more tag in its repository. A carton that had the tag loses it.

    Args:
        artifact: The name of the artifact: `oci://HOST/REPOSITORY:TAG`, or `oci://HOST/REPOSITORY@sha256:DIGEST`.
        tag: The new tag.
        progress: As in `load`.

    Raises:
        InvalidInputError: The name of the artifact, or the tag, is not one.
        NetworkError: There is no such artifact, or the registry cannot be reached or refuses the login.

        >>> carton.tag("oci://registry.example.com/team/digits:1.0", "stable").artifact  # doctest: +SKIP
        'oci://registry.example.com/team/digits:stable'
    """
    with _progress.reporting(progress) as callback:
        return _carton.tag(artifact, tag, progress=callback)


def tags(repository: str, *, progress: Callable[..., None] | bool | None = None) -> list[TagInfo]:
    """The tags of a repository, and the cartons that they name.

    Args:
        repository: The name of the repository: `oci://HOST/REPOSITORY`.
        progress: As in `load`.

    Raises:
        InvalidInputError: The name of the repository is not one.
        NetworkError: There is no such repository, or the registry cannot be reached or refuses the login.

        >>> [found.tag for found in carton.tags("oci://registry.example.com/team/digits")]  # doctest: +SKIP
        ['1.0', 'stable']
    """
    with _progress.reporting(progress) as callback:
        return _carton.tags(repository, progress=callback)
