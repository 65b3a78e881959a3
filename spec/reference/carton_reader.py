"""A reader of cartons in plain Python, written from spec/carton-format.md and spec/carton-format-extensions.md alone.

    python3 spec/reference/carton_reader.py CARTON

prints what the carton says, as JSON in the form that spec/conformance/README.md describes, or {"refused": REASON} and why on standard
error. CARTON is a file, or the folder of an unpacked carton. The whole of it is read into memory and verified. Files that are only
linked are not fetched, and tensors in them not read.

It is for reading along with the specification, and for checking other readers by; not for speed, and not a part of any program.
"""

import hashlib
import json
import os
import re
import stat
import sys
import unicodedata

import carton_toml
import names
import tensor_data
from archive import Archive
from refusal import Refused

MAX_MANIFEST = 256 << 20
MAX_LINKS = 64 << 20
LINE = re.compile(rb"(.*)=([0-9a-f]{64})")
DIGEST = re.compile(r"[0-9a-f]{64}")
URL = re.compile(r"(https?://|file:///)[^\s/?#]\S*", re.IGNORECASE)


class PackedContents:
    """The files of a packed carton."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.archive = Archive(file.read())
        self.entries = {entry.path: entry for entry in self.archive.entries if entry.kind != "folder"}
        self.folders = {entry.path for entry in self.archive.entries if entry.kind == "folder"}
        self.links = {path for path, entry in self.entries.items() if entry.kind == "link"}

    def size(self, path):
        return self.entries[path].size

    def read(self, path):
        return self.archive.read(self.entries[path])

    def target(self, path):
        """The target of a link, or None for anything else."""
        if path not in self.links:
            return None
        try:
            return self.read(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("link", f"the target of the link {path!r} is not UTF-8") from error


class UnpackedContents:
    """The files of an unpacked carton."""

    def __init__(self, root):
        self.root = os.fsencode(root)
        self.entries, self.folders, self.links = {}, set(), set()
        for folder, folders, files in os.walk(self.root):
            for name in [*files, *folders]:
                full = os.path.join(folder, name)
                mode = os.lstat(full).st_mode
                path = names.check(os.path.relpath(full, self.root))
                if stat.S_ISDIR(mode):
                    self.folders.add(path)
                    continue
                if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                    raise Refused("unsupported", f"{full!r} is neither file, folder nor symbolic link")
                self.entries[path] = full
                if stat.S_ISLNK(mode):
                    self.links.add(path)

    def size(self, path):
        return os.stat(self.entries[path]).st_size

    def read(self, path):
        with open(self.entries[path], "rb") as file:
            return file.read()

    def target(self, path):
        return os.fsdecode(os.readlink(self.entries[path])) if path in self.links else None


def parse_manifest(content):
    """MANIFEST as the digest of each path."""
    digests = {}
    for line in content[:-1].split(b"\n") if content.endswith(b"\n") else content.split(b"\n") if content else []:
        match = LINE.fullmatch(line)
        if match is None:
            raise Refused("manifest", f"{line!r} is not a line of MANIFEST")
        path = names.check(match[1])
        if path in ("MANIFEST", "LINKS"):
            raise Refused("manifest", f"MANIFEST lists {path}")
        if path in digests:
            raise Refused("name", f"MANIFEST lists {path!r} twice")
        digests[path] = match[2].decode("ascii")
    names.check_together(list(digests))
    return digests


def parse_links(content):
    """LINKS as the URLs and the sizes of files by digest."""
    root = carton_toml.Table(carton_toml.parse_toml(content, "LINKS", "links", MAX_LINKS), "LINKS", "links")
    if root.take("version", int, required=True) != 1:
        raise Refused("unsupported", "LINKS: only version 1 is read")
    urls = root.take("urls", dict) or {}
    for digest, list_of_urls in urls.items():
        if not DIGEST.fullmatch(digest) or not isinstance(list_of_urls, list) or not list_of_urls:
            raise root.refusal(f"{digest!r} is not a digest with URLs")
        if not all(isinstance(url, str) and _is_url(url) for url in list_of_urls):
            raise root.refusal(f"{digest!r} has something else than URLs")
    sizes = root.take("sizes", dict) or {}
    for digest, size in sizes.items():
        if not DIGEST.fullmatch(digest) or isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise root.refusal(f"{digest!r} is not a digest with a size")
    return urls, sizes


def _is_url(text):
    return URL.fullmatch(text) is not None and not any(unicodedata.category(character) == "Cc" for character in text)


class Carton:
    """A carton that was opened: all that can be known without reading its model."""

    def __init__(self, path):
        self.contents = UnpackedContents(path) if os.path.isdir(path) else PackedContents(path)
        for name, limit in (("MANIFEST", MAX_MANIFEST), ("LINKS", MAX_LINKS)):
            if name in self.contents.links:
                raise Refused("link", f"{name} is a symbolic link")
            if name in self.contents.folders:
                raise Refused("name", f"{name} is a folder")
            if name in self.contents.entries and self.contents.size(name) > limit:
                raise Refused("limit", f"{name} is too large")
        if "MANIFEST" not in self.contents.entries:
            raise Refused("manifest", "there is no MANIFEST")
        manifest = self.contents.read("MANIFEST")
        self.hash = hashlib.sha256(manifest).hexdigest()
        self.digests = parse_manifest(manifest)
        self.urls, self.sizes = {}, {}
        if "LINKS" in self.contents.entries:
            self.urls, self.sizes = parse_links(self.contents.read("LINKS"))
        self._check_files()
        self._check_links()
        self.metadata = carton_toml.parse(self.read("carton.toml"))
        self.tensors = self._index()
        self._check_references()

    def _check_files(self):
        for path in self.contents.entries:
            if path not in self.digests and path not in ("MANIFEST", "LINKS"):
                raise Refused("manifest", f"MANIFEST does not list {path!r}")
        for path, digest in self.digests.items():
            if path not in self.contents.entries and digest not in self.urls:
                raise Refused("manifest", f"{path!r} is neither in the carton nor linked")
        if "carton.toml" not in self.digests:
            raise Refused("manifest", "there is no carton.toml")

    def _check_links(self):
        self.ends = {path: names.follow(path, self.contents.target) for path in self.digests}
        for path, end in self.ends.items():
            if end not in self.digests:
                raise Refused("link", f"the link {path!r} leads to no file of the carton")

    def read(self, path):
        """The bytes of a file, verified, or None if it is only linked."""
        if path not in self.digests:
            raise Refused("manifest", f"there is no {path!r}")
        end = self.ends[path]
        if end not in self.contents.entries:
            return None
        content = self.contents.read(end)
        if hashlib.sha256(content).hexdigest() != self.digests[path]:
            raise Refused("digest", f"{path!r} is not the file that MANIFEST lists")
        return content

    def _index(self):
        if tensor_data.INDEX in self.digests:
            return tensor_data.parse_index(self.read(tensor_data.INDEX))
        if any(path.startswith("tensor_data/") for path in self.digests):
            raise Refused("tensor", "there are files in tensor_data, but no index.toml")
        return {}

    def _check_references(self):
        for tensor in self.tensors.values():
            if "file" in tensor and "tensor_data/" + tensor["file"] not in self.digests:
                raise Refused("tensor", f"there is no file {tensor['file']!r} in tensor_data")
        for reference in carton_toml.references(self.metadata):
            where, _, name = reference.partition("/")
            known = name in self.tensors if where == "@tensor_data" else "misc/" + name in self.digests
            if not known:
                raise Refused("metadata", f"there is no {reference!r}")

    def describe(self):
        """All that the carton says, with every file and every tensor verified."""
        files = []
        for path in sorted(self.digests, key=lambda path: path.encode("utf-8")):
            content = self.read(path)
            size = self.sizes.get(self.digests[path]) if content is None else len(content)
            file = {"path": path, "size": size, "sha256": self.digests[path]}
            if content is None:
                file["urls"] = self.urls[self.digests[self.ends[path]]]
            files.append(file)
        return {
            "hash": self.hash,
            "metadata": self.metadata,
            "optional_inputs": carton_toml.optional_inputs(self.metadata),
            "files": files,
            "tensors": [tensor_data.read(tensor, self.read) for tensor in self.tensors.values()],
        }


def describe(path):
    """What the reader says of a carton: `{"reads": …}` or `{"refused": …}`, and why it is refused."""
    try:
        return {"reads": Carton(path).describe()}, None
    except Refused as refused:
        return {"refused": refused.reason}, str(refused)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    said, why = describe(sys.argv[1])
    print(json.dumps(said, indent=2, ensure_ascii=False, default=str))
    if why is not None:
        sys.exit(why)


if __name__ == "__main__":
    main()
