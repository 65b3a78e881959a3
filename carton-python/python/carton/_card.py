"""The card of a carton, which notebooks show: HTML without scripts, styled by attributes alone, for light and dark pages.

Everything that a carton says is text here: it is escaped, and Markdown stays as it was written.
"""

from __future__ import annotations

import base64
import html
from typing import Any, Iterable

import numpy as np

from . import _carton
from ._errors import Error
from ._results import Info

#: Larger pictures are named, not shown.
_MAX_PICTURE_BYTES = 1 << 20
#: Examples are not read if the files of their tensors and pictures are larger than this together: a card must appear at once.
_MAX_EXAMPLE_BYTES = 16 << 20
_MAX_EXAMPLES = 8
_MAX_TEXT = 4_000
_MAX_VALUE = 200

_LINE = "1px solid rgba(128,128,128,.45)"
_CELL = f"text-align:left;vertical-align:top;padding:.2em .8em .2em 0;border-bottom:{_LINE};background:none"
_MUTED = "opacity:.7"


def card(shown: _carton.Package | _carton.Model) -> str:
    """The card of an opened carton, or of a loaded model's carton: an HTML `div`.

    It has the name, the descriptions, inputs and outputs, the runner, the self-tests, the examples with their pictures (PNG, JPEG, GIF and
    WebP of at most 1 MiB), and the hash. Nothing is fetched from elsewhere for it.
    """
    package = shown.package if isinstance(shown, _carton.Model) else shown
    info = package.info()
    running = shown.runner if isinstance(shown, _carton.Model) else None
    parts = [_heading(info)]
    if info.model_description:
        parts.append(_element("div", "white-space:pre-wrap;margin:.4em 0", _text(_cut(info.model_description, _MAX_TEXT))))
    parts.append(_table([("inputs", spec) for spec in package.inputs] + [("outputs", spec) for spec in package.outputs]))
    parts.append(_facts(info, running))
    parts += [_example(package, name, _can_be_read(info)) for name in package.examples[:_MAX_EXAMPLES]]
    if len(package.examples) > _MAX_EXAMPLES:
        parts.append(_element("div", _MUTED, f"and {len(package.examples) - _MAX_EXAMPLES} more examples"))
    style = f"border:{_LINE};border-radius:6px;padding:.8em 1em;max-width:60em;overflow-x:auto;color:inherit;background:none"
    return _element("div", style, "".join(parts))


def _heading(info: Info) -> str:
    name = _element("strong", "font-size:1.2em", _text(info.model_name or "unnamed model"))
    short = info.short_description
    below = _element("div", "", _text(_cut(short, _MAX_TEXT))) if short else ""
    return _element("div", "margin-bottom:.4em", name + below)


def _table(specs: Iterable[tuple[str, _carton.TensorSpec]]) -> str:
    rows = []
    before = None
    for kind, spec in specs:
        if kind != before:
            heading = _element("th", _CELL, kind), *(_element("th", _CELL, text) for text in ("dtype", "shape", ""))
            rows.append(_element("tr", "background:none", "".join(heading)))
            before = kind
        notes = ["optional"] if spec.optional and kind == "inputs" else []
        if spec.description:
            notes.append(_cut(spec.description, _MAX_TEXT))
        cells = [_code(spec.name), _code(spec.dtype), _code(_shape(spec.shape)), _text("; ".join(notes))]
        rows.append(_element("tr", "background:none", "".join(_element("td", _CELL, cell) for cell in cells)))
    if not rows:
        return _element("div", _MUTED, "no declared inputs and outputs")
    return _element("table", "border-collapse:collapse;margin:.4em 0;color:inherit;background:none", "".join(rows))


def _shape(shape: str | tuple[int | str, ...]) -> str:
    if isinstance(shape, str):
        return "any" if shape == "*" else shape
    return "[" + ", ".join(map(str, shape)) + "]" if shape else "scalar"


def _facts(info: Info, running: str | None) -> str:
    required = f"{info.runner.name} {info.runner.framework_version}".strip()
    facts = [("runner", _text(f"{running} (the carton requires {required})" if running else required))]
    if info.self_tests:
        facts.append(("self-tests", _text(_cut(", ".join(info.self_tests), _MAX_TEXT))))
    if info.license:
        facts.append(("license", _text(info.license)))
    facts += [(name, _link(url)) for name, url in (("homepage", info.homepage), ("repository", info.repository)) if url]
    facts += [("warning", _text(_cut(warning, _MAX_TEXT))) for warning in info.warnings]
    # Whom another bundle names as its signer, anyone can write.
    if info.signing is not None and info.signing.status == "trusted" and info.signing.signer:
        facts.append(("signed by", _text(_cut(info.signing.signer, _MAX_TEXT))))
    facts.append(("SHA-256", _code(info.manifest_sha256) if info.manifest_sha256 else "not in a carton"))
    lines = [_element("div", "", _element("span", _MUTED, f"{name}: ") + value) for name, value in facts]
    return _element("div", "margin:.4em 0;overflow-wrap:anywhere", "".join(lines))


def _can_be_read(info: Info) -> bool:
    """Whether the files of examples are here and small."""
    files = [file for file in info.files if file.path.startswith(("misc/", "tensor_data/"))]
    return not any(file.linked for file in files) and sum(file.size or 0 for file in files) <= _MAX_EXAMPLE_BYTES


def _example(package: _carton.Package, name: str, is_readable: bool) -> str:
    title = _element("div", "margin-top:.6em", _element("span", _MUTED, "example: ") + _text(_cut(name, _MAX_VALUE)))
    if not is_readable:
        return title
    try:
        inputs, outputs = package.example(name)
    except Error as error:
        return title + _element("div", _MUTED, _text(_cut(str(error), _MAX_TEXT)))
    values = [_named(key, value) for key, value in inputs.items()]
    if outputs:
        values.append(_element("span", f"{_MUTED};padding:0 .6em", "&rarr;"))
        values += [_named(key, value) for key, value in outputs.items()]
    return title + _element("div", "display:flex;flex-wrap:wrap;align-items:center;gap:.4em", "".join(values))


def _named(name: str, value: Any) -> str:
    return _element("span", "", _code(name) + " " + _value(value))


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        kind = picture_type(value)
        if kind is None or len(value) > _MAX_PICTURE_BYTES:
            return _text(f"file of {len(value)} bytes")
        source = f"data:{kind};base64,{base64.b64encode(value).decode('ascii')}"
        style = "max-width:16em;max-height:16em;vertical-align:middle"
        return f'<img alt="" style="{style}" src="{source}">'
    if isinstance(value, list):
        return _text(f"{len(value)} tensors of several shapes")
    if not isinstance(value, np.ndarray):
        return _text(_cut(str(value), _MAX_VALUE))
    dtype = "string" if value.dtype == object else str(value.dtype)
    if value.size == 1:
        return _text(_cut(str(value.ravel()[0]), _MAX_VALUE)) + " " + _element("span", _MUTED, _text(dtype))
    return _text(f"{dtype} {_shape(value.shape)}")


def picture_type(content: bytes) -> str | None:
    """The media type of a picture that browsers show, by its first bytes; None for anything else, SVG among it."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def _element(name: str, style: str, content: str) -> str:
    """An element around HTML. The style is one of this module's."""
    return f'<{name} style="{style}">{content}</{name}>' if style else f"<{name}>{content}</{name}>"


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _code(text: str) -> str:
    return _element("code", "color:inherit;background:none", _text(text))


def _link(url: str) -> str:
    """A link to a page on the web; any other text as text."""
    if not url.lower().startswith(("https://", "http://")):
        return _text(url)
    return f'<a rel="noopener noreferrer" style="color:inherit" href="{_text(url)}">{_text(url)}</a>'


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
