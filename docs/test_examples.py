"""Runs the examples of the documentation: pytest, on an interpreter that has the module `carton` and, beside it, the command.

The blocks of a page run one after another in one folder, which has a copy of `examples`; its parent is the user's home. `sh` blocks run in
bash, which stops at the first failure, and `python` blocks on this interpreter. Rust is compiled and run by rustdoc (`examples/rust/src/lib.rs`,
`carton-runner-interface/src/lib.rs`); `text` and `toml` are not run. A comment before a block changes that:

    <!-- file: PATH -->          the block becomes this file
    <!-- background -->          it runs until the end of the page
    <!-- not run: REASON -->     it is skipped

The ports 8080 and 8081 stand for two that are free.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
BLOCK = re.compile(
    r"^(?:<!-- (?P<how>not run|file|background)(?:: (?P<what>.*?))? -->\n)?```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S
)
RUNNABLE = ["sh", "python"]
NOT_RUN = ["text", "toml", "rust"]
# Seconds for a block. The first one may load a model on a busy machine.
PATIENCE = 120


def blocks(page):
    return list(BLOCK.finditer((DOCS / page).read_text()))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


class Reader:
    """Somebody who follows a page."""

    def __init__(self, home):
        self.folder = home / "work"
        self.folder.mkdir()
        shutil.copytree(DOCS.parent / "examples", self.folder / "examples")
        programs = Path(sys.executable).parent
        self.environment = {"HOME": str(home), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.environment |= {name: value for name, value in os.environ.items() if name.startswith("ORT_")}
        self.ports = {port: free_port() for port in ["8080", "8081"]}
        self.background = []

    def follow(self, block):
        text = block["text"]
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        if block["how"] == "file":
            path = self.folder / block["what"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        command = ["bash", "-euo", "pipefail", "-c", text] if block["language"] == "sh" else [sys.executable, "-c", text]
        if block["how"] == "background":
            log = open(self.folder / "background.log", "a")
            self.background.append(
                subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True)
            )
            return
        run = subprocess.run(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )
        assert run.returncode == 0, f"{text}\nended with {run.returncode}:\n{run.stdout}\n{run.stderr}\n{self.log()}"

    def log(self):
        path = self.folder / "background.log"
        return path.read_text() if path.exists() else ""

    def leave(self):
        for process in self.background:
            os.killpg(process.pid, signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, self.log()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_page(page, tmp_path):
    for program in ["curl"]:
        if any(program in block["text"] for block in blocks(page)) and not shutil.which(program):
            pytest.skip(f"the examples of {page} need {program}")
    reader = Reader(tmp_path)
    try:
        for block in blocks(page):
            if block["how"] != "not run" and (block["how"] == "file" or block["language"] in RUNNABLE):
                reader.follow(block)
    finally:
        reader.leave()


def not_run():
    return [(page, block["what"], block["text"]) for page in PAGES for block in blocks(page) if block["how"] == "not run"]


@pytest.mark.parametrize("page, reason, text", not_run(), ids=lambda value: value if value in PAGES else "")
def test_what_is_not_run(page, reason, text):
    """Counted as skipped, with the reason."""
    assert reason, f"{page} does not say why it does not run:\n{text}"
    pytest.skip(f"{page}: {reason}")


def test_every_block_is_understood():
    for page in PAGES:
        text = (DOCS / page).read_text()
        found = blocks(page)
        assert len(found) == len(re.findall(r"^```\w", text, re.M)), f"{page} has a block, or a comment before one, that is not understood"
        for block in found:
            assert block["language"] in RUNNABLE + NOT_RUN, f"{page} has a block in {block['language']}"


def test_every_key_is_in_a_stored_file():
    """The stored files, which every later release must read, have all keys that the reference documents."""
    sys.path.insert(0, str(DOCS))
    import generate

    stored = DOCS.parent / "tests/fixtures/0.1"
    for name, sections in [("config.toml", generate.configuration_sections()), ("serve.toml", generate.serve_sections())]:
        text = (stored / name).read_text()
        for heading, rows in sections:
            for key, _, _ in rows:
                assert re.search(rf"(^|[\[{{,. ]){key}(\]|\.| =)", text, re.M), f"{name} has no `{key}` of {heading}"
