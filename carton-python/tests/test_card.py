"""The card that notebooks show."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carton
from carton import Example, Metadata, SelfTest, TensorSpec, _card

#: What a card may consist of.
ELEMENTS = {"a", "code", "div", "img", "span", "strong", "table", "td", "th", "tr"}
ATTRIBUTES = {"style", "src", "alt", "href", "rel"}


class Parsed(HTMLParser):
    """Checks that HTML is well formed and has nothing that runs, and collects its text and pictures."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""
        self.pictures: list[tuple[str, bytes]] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES and value is not None, name
            if name == "style":
                # No address, and no colour that would be wrong on a dark page.
                assert not re.search(r"url|expression|#|black|white(?!-space)", value), value
            if name == "src":
                kind, _, content = value.partition(";base64,")
                self.pictures.append((kind, base64.b64decode(content, validate=True)))
            if name == "href":
                self.links.append(value)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    handle_comment = handle_pi = unknown_decl = handle_decl


@pytest.fixture
def pack(noop_folder: Path, tmp_path: Path) -> Any:
    def packed(**options: Any) -> carton.Package:
        path = tmp_path / "model.carton"
        # Examples need declared inputs and outputs.
        if options and "inputs" not in options:
            options = {"inputs": [TensorSpec("x", options.pop("dtype", "float32"))], "outputs": [TensorSpec("y", "float32")], **options}
        carton.pack(noop_folder, path, runner="noop", check=False, **options)
        return carton.open(path)

    return packed


def test_the_example(digits_path: Path, digits_folder: Path, digits: carton.Model) -> None:
    package = carton.open(digits_path)
    parsed = Parsed(_card.card(package))
    for text in [
        "digits", "Tells which digit", "one hidden layer", "image", "float32", "[batch, 1, 8, 8]", "Brightness of the ink",
        "probabilities", "[batch, 10]", "onnx >=1.24.0, <2", "one digit, sixteen digits", "Apache-2.0", "a two", package.manifest_sha256,
    ]:  # fmt: skip
        assert text in parsed.text, text
    assert parsed.pictures == [("data:image/png", (digits_folder / "digit.png").read_bytes())]
    # A model's card says what runs it.
    assert digits.runner in Parsed(_card.card(digits)).text
    # What notebooks ask for.
    assert package._repr_html_() == _card.card(package)
    assert "Tells which digit" in Parsed(digits._repr_html_()).text


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"


def test_everything_is_escaped(pack: Any, tmp_path: Path) -> None:
    spec = TensorSpec("<b>", "float32", ["n", 2], description=EVIL)
    package = pack(
        metadata=Metadata(model_name=EVIL, short_description=EVIL, model_description=EVIL + "\n# Title", license="MIT"),
        inputs=[spec],
        outputs=[spec],
        tests=[
            SelfTest({"<b>": np.zeros((1, 2), np.float32)}, name=EVIL),
            Example({"<b>": np.array(EVIL)}, {"<b>": np.zeros((1, 2), np.float32)}, name=EVIL),
        ],
    )
    parsed = Parsed(_card.card(package))
    # The name, the descriptions of the model and of two tensors, the test, and the example with its text.
    assert parsed.text.count(EVIL) == 8
    assert "# Title" in parsed.text and parsed.pictures == [] == parsed.links


def test_links(pack: Any) -> None:
    package = pack(metadata=Metadata(homepage="https://example.com/?a=1&b=\"2\"", repository="https://example.com/x"))
    assert Parsed(_card.card(package)).links == ['https://example.com/?a=1&b="2"', "https://example.com/x"]
    assert Parsed(_card._link("javascript:alert(1)")).links == []


def test_values(pack: Any) -> None:
    def check(value: Any, expected: str) -> None:
        dtype = value[0].dtype if isinstance(value, list) else np.asarray(value).dtype
        package = pack(dtype=dtype, tests=[Example({"x": value}, {"y": np.zeros(2, np.float32)})])
        assert expected in Parsed(_card.card(package)).text, expected

    check(np.zeros((3, 4), np.int8), "int8 [3, 4]")
    check(np.float32(1.5), "1.5")
    check("some text", "some text")
    check(np.array(["a", "b"]), "string [2]")
    check([np.zeros(2), np.zeros(3)], "2 tensors of several shapes")
    check("x" * 10_000, "xxx…")


def with_file(pack: Any, tmp_path: Path, content: bytes) -> Parsed:
    """The card of a carton whose example is a file."""
    (tmp_path / "picture.bin").write_bytes(content)
    metadata = tmp_path / "carton.toml"
    metadata.write_text('[[example]]\nname = "one"\n[example.inputs]\nx = "picture.bin"\n[example.sample_out]\ny = "picture.bin"\n')
    return Parsed(_card.card(pack(metadata=metadata)))


def test_pictures(pack: Any, tmp_path: Path) -> None:
    def check(content: bytes, expected: str | None) -> None:
        parsed = with_file(pack, tmp_path, content)
        assert parsed.pictures == ([] if expected is None else [(f"data:{expected}", content)] * 2)
        assert expected is not None or f"file of {len(content)} bytes" in parsed.text

    check(b"\x89PNG\r\n\x1a\n....", "image/png")
    check(b"\xff\xd8\xff\xe0....", "image/jpeg")
    check(b"GIF89a....", "image/gif")
    check(b"RIFF\0\0\0\0WEBPVP8 ", "image/webp")
    check(b"RIFF\0\0\0\0WAVEfmt ", None)
    check(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", None)
    check(b"<html>", None)
    check(b"\x89PNG\r\n\x1a\n" + bytes(1 << 20), None)


def test_large_and_missing_examples_are_only_named(pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pack(dtype="float64", tests=[Example({"x": np.zeros(1000)}, {"y": np.zeros(2, np.float32)}, name="large one")])
    assert "float64 [1000]" in Parsed(_card.card(package)).text
    monkeypatch.setattr(_card, "_MAX_EXAMPLE_BYTES", 100)
    text = Parsed(_card.card(package)).text
    assert "large one" in text and "float64 [1000]" not in text


def test_many_examples(pack: Any) -> None:
    package = pack(tests=[Example({"x": np.float32(number)}, {"y": np.zeros(2, np.float32)}, name=f"number {number}") for number in range(11)])
    text = Parsed(_card.card(package)).text
    assert "number 7" in text and "number 8" not in text and "and 3 more examples" in text


def test_a_carton_that_says_nothing(pack: Any) -> None:
    assert "unnamed model" in Parsed(_card.card(pack())).text
