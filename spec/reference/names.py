"""What a path in a carton may be (carton-format.md, "Names"). Pure."""

import os

from refusal import Refused

MAX_BYTES = 3072


def check(raw):
    """Returns the path that the bytes of `raw` are."""
    if len(raw) > MAX_BYTES:
        raise Refused("name", f"a path of {len(raw)} bytes; at most {MAX_BYTES} are allowed")
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("name", f"the path {raw!r} is not UTF-8") from error
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise Refused("name", f"the path {path!r} has an empty component, `.` or `..`")
    if any(character in path for character in "\0\n\r"):
        raise Refused("name", f"the path {path!r} has a control character")
    if "\\" in path:
        if "\\" in path.split("/")[0]:
            raise Refused("name", f"the path {path!r} has a back slash that is not below a folder")
        if any(part in ("", ".", "..") or ":" in part for part in as_slashes(path).split("/")):
            raise Refused("name", f"the path {path!r} leaves its folder where a back slash is a slash")
    return path


def as_slashes(path):
    """The path as a reader sees it that takes a back slash for a slash."""
    return path.replace("\\", "/")


def check_together(files, folders=()):
    """Refuses paths that cannot be in one folder: the same one twice, and one inside another that is a file or a link."""
    seen = set(files)
    if len(seen) < len(files) or len(set(folders)) < len(folders) or seen & set(folders):
        raise Refused("name", "the same path is there twice")
    for path in (*files, *folders):
        for parent in parents(path):
            if parent in seen:
                raise Refused("name", f"the path {path!r} is inside {parent!r}, which is a file")
    slashed = {as_slashes(path): path for path in files}
    for path in files:
        if "\\" in path and (slashed[as_slashes(path)] != path or as_slashes(path) in seen):
            raise Refused("name", f"the path {path!r} is another file where a back slash is a slash")
        for parent in parents(as_slashes(path)):
            if parent in slashed and "\\" in path + slashed[parent]:
                raise Refused("name", f"the path {path!r} is inside a file where a back slash is a slash")


def parents(path):
    """The folders that a path is in, from the innermost outwards."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def follow(path, target_of):
    """Where the chain of symbolic links that begins at `path` ends. `target_of` gives a link's target, or None for what is no link."""
    link = path
    for _ in range(40):
        target = target_of(path)
        if target is None:
            return path
        top = path.split("/")[0]
        path = _resolve(path, target)
        if top == "model" and not path.startswith("model/"):
            raise Refused("link", f"the link {link!r} leaves model/")
    if target_of(path) is None:
        return path
    raise Refused("link", f"the link {link!r} leads through more than 40 links, or in a circle")


def _resolve(link, target):
    if target == "" or target.startswith("/"):
        raise Refused("link", f"the target of the link {link!r} is empty or absolute")
    if len(os.fsencode(target)) > MAX_BYTES:
        raise Refused("limit", f"the target of the link {link!r} is too long")
    parts = link.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            if not parts:
                raise Refused("link", f"the link {link!r} leaves the carton")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    path = "/".join(parts)
    if "\\" in path:
        raise Refused("link", f"the link {link!r} leads to a name with a back slash")
    return path
