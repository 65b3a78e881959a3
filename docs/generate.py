"""Makes the sources of the documentation site: `python docs/generate.py CARTON FOLDER`.

The pages of docs/ and the other pages in `PAGES` are put into FOLDER. A line `<!-- generated: NAME -->` is replaced by a reference that is
made of the code: the help that the program CARTON prints, or the fields of the structs that read configuration files, with their
documentation. What this does not understand is an error, never left out.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs/"

# Pages outside docs/, which are at the same place in the site as in the repository.
PAGES = ["CHANGELOG.md", "SECURITY.md", "spec/**/*.md", "spec/*.json", "runners/*/README.md", "examples/*/README.md"]


class GenerationError(Exception):
    """The code is not as this program expects it."""


# Rust: the fields of structs with their documentation.


def body(text, opening, file):
    """Returns the lines between the line that ends with `opening` and the closing brace with the same indentation."""
    found = re.search(rf"^( *)[^\n]*{re.escape(opening)}\n(.*?)^\1\}}", text, re.M | re.S)
    if not found:
        raise GenerationError(f"`{opening}` is not in {file}")
    return found[2].splitlines()


def fields(file, struct, expand=None):
    """Returns name, type and documentation of each field of a struct that serde reads."""
    found, documentation, attributes = [], [], []
    for line in body((ROOT / file).read_text(), f"struct {struct} {{", file):
        line = line.strip()
        if line.startswith("///"):
            documentation.append(line[3:].strip())
        elif line.startswith("#["):
            attributes.append(line)
        elif expand and line == expand[0]:
            found.extend(expand[1])
            documentation, attributes = [], []
        elif field := re.fullmatch(r"(?:pub(?:\([a-z]+\))? )?(\w+): (.+),", line):
            renamed = [match[1] for match in (re.search(r'rename = "(\w+)"', text) for text in attributes) if match]
            if "#[serde(skip)]" not in attributes:
                found.append(((renamed or [field[1]])[0], field[2], " ".join(documentation)))
            documentation, attributes = [], []
        elif line:
            raise GenerationError(f"{struct} in {file} has a line that is no field: {line}")
    missing = [name for name, _, text in found if not text]
    if missing or not found:
        raise GenerationError(f"{struct} in {file} has fields without documentation: {missing}")
    return found


def limit_fields():
    """The resource limits of runners, whose only list is that of the macro."""
    file = "carton-sandbox/src/limits.rs"
    found, documentation = [], []
    for line in body((ROOT / file).read_text(), "$callback! {", file):
        line = line.strip()
        if line.startswith("///"):
            documentation.append(line[3:].strip())
        else:
            found.append((line.removesuffix(","), "Option<u64>", "Limit: " + lower_first(" ".join(documentation))))
            documentation = []
    return found


def lower_first(text):
    return text[:1].lower() + text[1:]


KINDS = {
    "bool": "true or false",
    "String": "text",
    "PathBuf": "path",
    "Place": "text",
    "ManifestHash": "hash",
    "SandboxMode": "`strict`, `on` or `off`",
    "SignatureMode": "`strict`, `warn` or `off`",
    "Netrc": "path or `false`",
    "Proxy": "URL or `false`",
    "Address": "address",
    "Options": "table",
    "Permissions": "list of texts",
    "Limits": "section",
    "RunnerLimits": "table",
}
KINDS |= dict.fromkeys(["f64", "u32", "u64", "usize", "NonZeroUsize", "NonZeroU32", "Duration"], "number")
SECTIONS = ["RawNetwork", "RawCredential", "RawRegistry", "RawTrust", "RawSandbox", "TlsFiles", "ModelConfig"]
KINDS |= dict.fromkeys(SECTIONS, "section")


def kind(type_name):
    """Says in words what TOML has for a type of Rust."""
    if found := re.fullmatch(r"(?:Option|Spanned)<(.+)>", type_name):
        return kind(found[1])
    if found := re.fullmatch(r"Vec<(.+)>", type_name):
        inner = kind(found[1])
        return {"section": "sections", "address": "address, or list"}.get(inner, f"list of {inner}s")
    if type_name not in KINDS:
        raise GenerationError(f"no words are known for the type {type_name}")
    return KINDS[type_name]


def table(rows):
    lines = ["| Key | Value | Meaning |", "| --- | --- | --- |"]
    for name, type_name, documentation in rows:
        meaning = re.sub(r"\[`?([^`\]]+)`?\](?:\([^)]*\))?", r"`\1`", documentation).replace("|", "\\|")
        lines.append(f"| `{name}` | {kind(type_name)} | {meaning} |")
    return "\n".join(lines)


CORE = "carton-core/src/config/file.rs"
SERVER = "carton-server/src/config/file.rs"
TLS = "carton-server/src/connection/tls.rs"


def configuration_sections():
    """Heading and fields of each part of the configuration."""
    limits = ("$($limit: Option<u64>,)*", limit_fields())
    return [
        ("Top level", fields(CORE, "RawConfig")),
        ("[network]", fields(CORE, "RawNetwork")),
        ("[sandbox]", fields(CORE, "RawSandboxSection", limits)),
        ("[[trust]]", fields(CORE, "RawTrust")),
        ("[[credentials]]", fields(CORE, "RawCredential")),
        ("[[registries]]", fields(CORE, "RawRegistry")),
    ]


def serve_sections():
    """The same for serve.toml. The keys of `[limits]` are read by a struct whose fields have the documentation of the public one."""
    limits = fields("carton-server/src/limits.rs", "Limits")
    read = [line.split(":")[0].strip() for line in body((ROOT / SERVER).read_text(), "struct RawLimits {", SERVER) if ": " in line]
    if read != [name for name, _, _ in limits]:
        raise GenerationError(f"[limits] has the keys {read}, documented are others: {limits}")
    return [
        ("Top level", fields(SERVER, "ServeConfig")),
        ("[tls]", fields(TLS, "TlsFiles")),
        ("[limits]", limits),
        ("[defaults] and [[model]]", fields(SERVER, "ModelConfig")),
    ]


def sections(parts):
    return "\n\n".join(f"## {heading.replace('[', chr(92) + '[')}\n\n{table(rows)}" for heading, rows in parts)


# The program: the help of each command.


def help_of(carton, command):
    run = subprocess.run([carton, *command, "--help"], capture_output=True, text=True, env={"PATH": "", "NO_COLOR": "1"}, timeout=60)
    if run.returncode != 0:
        raise GenerationError(f"{command}: {run.stderr}")
    return run.stdout


def subcommands(text):
    """The names in the list of commands that a help has."""
    found = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
    names = re.findall(r"^  (\w[\w-]*) ", found[1], re.M) if found else []
    return [name for name in names if name != "help"]


def commands(carton):
    parts = []

    def add(command):
        text = help_of(carton, command)
        if command:
            parts.append(f"{'#' * min(len(command) + 1, 4)} carton {' '.join(command)}")
        parts.append(f"```text\n{without_global_options(text, command).rstrip()}\n```")
        for name in subcommands(text):
            add([*command, name])

    add([])
    return "\n\n".join(parts)


def without_global_options(text, command):
    """Every command has the same options; the first help shows them."""
    if not command:
        return text
    return re.sub(r"^Global options:\n(?:(?: .*)?\n)*", "", text, flags=re.M)


# The pages.


def pages():
    """The path of each page in the site, and the file in the repository."""
    found = {path.relative_to(ROOT / DOCS).as_posix(): path for path in sorted((ROOT / DOCS).rglob("*.md"))}
    for pattern in PAGES:
        found |= {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.glob(pattern))}
    return found


LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


def relinked(text, page, file, in_site):
    """Points links to other pages to their place in the site. Links to what is not in the site become the path in the source."""

    def replacement(match):
        label, target = match[1], match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, fragment = target.partition("#")
        linked = (file.parent / path).resolve()
        if not linked.exists():
            raise GenerationError(f"{file.relative_to(ROOT)} links to {target}, where nothing is")
        linked = linked / "README.md" if (linked / "README.md").is_file() else linked
        if linked not in in_site:
            return f"{label} (`{linked.relative_to(ROOT)}` in the source)"
        relative = "../" * page.count("/") + in_site[linked] + (f"#{fragment}" if fragment else "")
        return f"[{label}]({relative})"

    # Blocks of code are left as they are.
    parts = re.split(r"(^ *```.*?^ *```[^\n]*$)", text, flags=re.M | re.S)
    return "".join(part if part.lstrip().startswith("```") else LINK.sub(replacement, part) for part in parts)


def shown(text):
    """Removes what is only for the tests: hidden lines of Rust, attributes of code, and instructions for docs/test_examples.py."""
    text = re.sub(
        r"^```rust[^\n]*\n(.*?)^```",
        lambda match: "```rust\n" + re.sub(r"^ *# .*\n", "", match[1], flags=re.M) + "```",
        text,
        flags=re.M | re.S,
    )
    return re.sub(r"^<!-- (?:not run|file|background).*?-->\n", "", text, flags=re.M)


def main(carton, folder):
    generated = {
        "commands": lambda: commands(carton),
        "configuration": lambda: sections(configuration_sections()),
        "serve": lambda: sections(serve_sections()),
    }
    folder = Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    found = pages()
    in_site = {file.resolve(): page for page, file in found.items()}
    for page, file in found.items():
        text = file.read_text()
        if file.suffix == ".md":
            text = shown(relinked(text, page, file, in_site))
            text = re.sub(r"^<!-- generated: (\w+) -->$", lambda match: generated[match[1]](), text, flags=re.M)
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(text)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except GenerationError as error:
        sys.exit(f"docs/generate.py: {error}")
