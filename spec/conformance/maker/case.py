"""What a case is, and how it is written."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Case:
    """A file or a folder, what it shows, and what a reader must say of it.

    `content` is the bytes of a file, or a dict of a folder: bytes for a file, `Link` for a symbolic link, by path.
    `shows` are the sentences of the specification, as (page, section, words).
    `by` says whose rule it is: that of the format, or that of this project's reader where the format leaves readers a choice.
    """

    file: str
    about: str
    shows: list
    content: object
    refused: str = None
    reads: dict = None
    by: str = "format"
    extra: dict = field(default_factory=dict)

    def description(self):
        shows = [{"page": page, "section": section, "words": words} for page, section, words in self.shows]
        outcome = {"refused": self.refused} if self.reads is None else {"reads": self.reads}
        return {"about": self.about, "by": self.by, "shows": shows, **self.extra, **outcome}


@dataclass
class Link:
    """A symbolic link in a folder."""

    target: str


def write(case, folder):
    """Writes a case into a folder: the file or folder, and its JSON beside it."""
    path = Path(folder) / case.file
    if isinstance(case.content, dict):
        for name, content in case.content.items():
            inner = path / name
            inner.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                os.symlink(content.target, inner)
            else:
                inner.write_bytes(content)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case.content)
    text = json.dumps(case.description(), indent=2, ensure_ascii=False)
    (path.parent / (path.name + ".json")).write_text(text + "\n", encoding="utf-8")


def write_all(groups, folder):
    """Writes all cases, each group into a folder of its own, in place of what is there."""
    for group, cases in groups.items():
        target = Path(folder) / group
        if target.exists():
            shutil.rmtree(target)
        names = set()
        for case in cases:
            if case.file in names:
                raise ValueError(f"two cases are called {case.file}")
            names.add(case.file)
            write(case, target)
