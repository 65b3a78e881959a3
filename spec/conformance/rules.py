"""The sentences of the specification that demand something, and where each stands. Pure: the text of a page in, sentences out."""

import re

# The pages whose demands files can break.
PAGES = ("carton-format.md", "carton-format-extensions.md", "safetensors.md", "ztensor.md", "dataset.md", "weights.md")

DEMANDS = re.compile(r"\b(must|never|refuses?|refused|an error|not supported)\b|\bno\b[^.]*\bmay\b", re.IGNORECASE)
# A number of a paragraph, such as **§2.5**, or of a heading, such as ### 2.5.
NUMBERED = re.compile(r"^\*\*§([0-9.]+)\*\*")
HEADING = re.compile(r"^#+ (?:([0-9.]+) )?(.*)$")
LIST_ITEM = re.compile(r"^ *- ")


def one_line(text):
    """Text with every run of white space as one space, so that line breaks of a page do not matter."""
    return " ".join(text.split())


def sections(page):
    """The blocks of a page (paragraphs, items of lists, rows of tables) with the name of the section that each is in.

    A section is named by its number where it has one, else by its heading. A block without a blank line before it is one of its own
    only as an item of a list or as a row of a table.
    """
    section, block, in_code = "", [], False
    blocks = []

    def finish():
        nonlocal block
        if block:
            blocks.append((section, one_line(" ".join(block))))
        block = []

    for line in page.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
            finish()
            continue
        if in_code:
            # A comment of an example may demand something too.
            if "#" in line:
                blocks.append((section, one_line(line)))
            continue
        heading = HEADING.match(line)
        numbered = NUMBERED.match(line)
        if heading:
            finish()
            section = (heading[1] or heading[2]).rstrip(".")
            continue
        if not line.strip():
            finish()
            continue
        if numbered or LIST_ITEM.match(line) or line.lstrip().startswith("|"):
            finish()
            if numbered:
                section = numbered[1]
        block.append(line)
    finish()
    return blocks


def demands(page):
    """(section, sentence) of each demand: a sentence with one of the words of DEMANDS, each item of a list that such a sentence introduces, and
    each numbered paragraph."""
    result, introduced = [], False
    for section, block in sections(page):
        is_item = bool(LIST_ITEM.match(block))
        if introduced and is_item:
            result.append((section, block))
            continue
        sentences = re.split(r"(?<=[.:]) (?=[A-Z`*@(])", block)
        introduced = False
        for n, sentence in enumerate(sentences):
            if DEMANDS.search(sentence) or (n == 0 and NUMBERED.match(sentence)):
                result.append((section, sentence))
                introduced = not is_item and sentence.endswith(":") and n + 1 == len(sentences)
    return result
