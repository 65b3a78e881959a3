#!/usr/bin/env python3
"""Draws the picture of the README: runs the commands below with the program CARTON, and writes what they print as docs/terminal.svg.

    python docs/terminal.py target/debug/carton

Needs `carton runner install onnx`.
"""

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMANDS = [
    "carton pack model.onnx --metadata carton.toml -o digits.carton",
    "carton verify digits.carton",
    "carton run digits.carton --self-test",
    "carton run digits.carton -i image=image.npy",
]

# Pixels.
WIDTH, MARGIN, LINE, SIZE = 860, 20, 20, 14
STYLE = f"""
    text {{ font: {SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #c9d1d9; }}
    .command {{ fill: #ffffff; font-weight: bold; }}
    .prompt {{ fill: #3fb950; }}
"""


def transcript(carton):
    """Yields the lines that a user would see: whether each is a command, and its text."""
    examples = HERE.parent / "examples/digits"
    with tempfile.TemporaryDirectory() as folder:
        for name in ["model.onnx", "carton.toml", "cases.npz", "digit.png", "image.npy", "probabilities.npy"]:
            (Path(folder) / name).write_bytes((examples / name).read_bytes())
        for command in COMMANDS:
            yield True, command
            words = [str(carton), *command.split()[1:]]
            ended = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
            for line in ended.stdout.rstrip().splitlines():
                yield False, re.sub(r"\x1b\[[0-9;]*m", "", line)


def drawn(lines):
    height = 2 * MARGIN + len(lines) * LINE
    texts = []
    for position, (is_command, line) in enumerate(lines):
        text = html.escape(line)
        if is_command:
            text = f'<tspan class="prompt">$ </tspan><tspan class="command">{text}</tspan>'
        texts.append(f'  <text x="{MARGIN}" y="{MARGIN + SIZE + position * LINE}">{text}</text>')
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    background = '  <rect width="100%" height="100%" rx="8" fill="#0d1117"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"  <style>{STYLE}  </style>", background, *texts, "</svg>", ""])


if __name__ == "__main__":
    (HERE / "terminal.svg").write_text(drawn(list(transcript(Path(sys.argv[1]).resolve()))))
