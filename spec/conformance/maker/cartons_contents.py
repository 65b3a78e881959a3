"""Cartons whose MANIFEST or LINKS is what the case is about (carton-format.md; carton-format-extensions.md)."""

from .case import Case
from .little_carton import least, sha256, whole
from .zip_records import LINK, ZSTD, zstd_block, zstd_frame

WEIGHTS = "model/weights.bin"
LINES = "anything else that is not such a line (empty lines, carriage returns, spaces around the digest, upper-case digits)"
PAIRS = "a file without a line, a line with neither file nor link"
OTHERS = "a path that is not allowed or is listed twice, a line for `MANIFEST` or `LINKS`"
SIZES = "Each key is a digest as in MANIFEST, each value an integer of 0 or more. Anything else is refused"


def case(name, about, shows, change, refused=None, by="format", base=least, unpacked=False, page="carton-format.md"):
    carton = base()
    change(carton)
    file, content = (name, carton.unpacked()) if unpacked else (f"{name}.carton", carton.packed())
    section, words = shows
    reads = None if refused else carton.reads()
    return Case(file, about, [(page, section, words)], content, refused=refused, reads=reads, by=by)


def cases():
    return [*whole_ones(), *manifests(), *links(), *sizes()]


def whole_ones():
    parts = "The carton format, version 1", '"Must" is about every carton'
    unpacked = "Parts", "It is read by the same rules, but for those about zip"
    return [
        case("least", "the least that is a carton", parts, lambda c: None),
        case("whole", "something of everything", parts, lambda c: None, base=whole),
        case("least-unpacked", "the least, unpacked", unpacked, lambda c: None, unpacked=True),
        case("whole-unpacked", "something of everything, unpacked", unpacked, lambda c: None, base=whole, unpacked=True),
        case("no-model", "a carton with no file in model/", ("Parts", "it may be empty"), lambda c: c.entries.pop(0)),
        case(
            "other-folder",
            "a file in a folder that the format does not know",
            ("`MANIFEST`", "All files of the carton are listed"),
            lambda c: c.add("other/file", b"x"),
        ),
    ]


def manifests():
    def edited(edit):
        def change(carton):
            carton.manifest = edit

        return change

    def bad(name, about, words, edit):
        return case(f"manifest-{name}", about, ("`MANIFEST`", words), edited(edit), refused="manifest")

    digest = sha256(bytes(range(40))).encode()
    other = sha256(b"x").encode()
    too_long = 256 * 1024 * 1024 + 1
    frames = zstd_frame([zstd_block(1, b"\n", 131072)] * 2048 + [zstd_block(1, b"\n", 1, last=True)])

    def limit(carton):
        carton.manifest = lambda right: b""
        carton.manifest_entry = {"method": ZSTD, "packed": frames, "local": {"size": too_long}, "central": {"size": too_long}}

    return [
        case(
            "manifest-other-order",
            "lines in another order",
            ("`MANIFEST`", "Accepted: lines in another order"),
            edited(lambda m: b"\n".join(reversed(m.splitlines())) + b"\n"),
            by="carton",
        ),
        case(
            "manifest-without-last-line-feed",
            "no line feed at the end",
            ("`MANIFEST`", "a last line without a line feed"),
            edited(lambda m: m[:-1]),
            by="carton",
        ),
        case(
            "manifest-equals-signs",
            "a path with equals signs",
            ("`MANIFEST`", "The path is what stands before the last `=`, so it may contain one"),
            lambda c: c.add("model/a=b=", b"x"),
        ),
        case("no-manifest", "no MANIFEST", ("Parts", "the path and SHA-256 of each file"), edited(lambda m: None), refused="manifest"),
        case(
            "no-manifest-unpacked",
            "a folder without MANIFEST",
            ("Parts", "the path and SHA-256 of each file"),
            edited(lambda m: None),
            refused="manifest",
            unpacked=True,
        ),
        bad("empty-line", "an empty line", LINES, lambda m: m.replace(b"\n", b"\n\n", 1)),
        bad("carriage-returns", "lines that end by CR and LF", LINES, lambda m: m.replace(b"\n", b"\r\n")),
        bad("space-before-digest", "a space before a digest", LINES, lambda m: m.replace(b"=", b"= ", 1)),
        bad("space-behind-digest", "a space behind a digest", LINES, lambda m: m.replace(b"\n", b" \n", 1)),
        bad("upper-case", "upper-case digits", LINES, lambda m: m.replace(digest, digest.upper())),
        bad("digest-too-short", "a digest of 63 digits", LINES, lambda m: m.replace(digest, digest[1:])),
        bad("no-digest", "a line without a digest", LINES, lambda m: m + b"model/x\n"),
        bad("byte-order-mark", "a byte order mark", LINES, lambda m: b"\xef\xbb\xbf" + m),
        case(
            "manifest-path-twice",
            "a path listed twice",
            ("`MANIFEST`", OTHERS),
            edited(lambda m: m + b"model/weights.bin=" + digest + b"\n"),
            refused="name",
        ),
        bad("lists-itself", "a line for MANIFEST", OTHERS, lambda m: m + b"MANIFEST=" + other + b"\n"),
        bad("lists-links", "a line for LINKS", OTHERS, lambda m: m + b"LINKS=" + other + b"\n"),
        bad("file-without-line", "a file without a line", PAIRS, lambda m: m.replace(b"model/weights.bin=" + digest + b"\n", b"")),
        bad("line-without-file", "a line without a file", PAIRS, lambda m: m + b"model/x=" + other + b"\n"),
        bad("without-carton-toml", "neither has carton.toml", PAIRS, lambda m: m[m.index(b"\n") + 1 :]),
        case(
            "no-carton-toml",
            "no carton.toml, and none is listed",
            ("Parts", "metadata: name, signature, self-tests, which runner it needs"),
            lambda c: c.entries.remove(c.entry("carton.toml")),
            refused="manifest",
        ),
        case("manifest-too-large", "MANIFEST has 256 MiB and a byte", ("`MANIFEST`", "and more than 256 MiB"), limit, refused="limit"),
        case(
            "digest-differs",
            "a file that is not the listed one",
            ("`MANIFEST`", "No byte of a file reaches a runner before the file's SHA-256 was found to be the listed one"),
            lambda c: c.digests.update({WEIGHTS: sha256(b"other")}),
            refused="digest",
        ),
        case(
            "digest-differs-unpacked",
            "the same in a folder",
            ("`MANIFEST`", "No byte of a file reaches a runner before the file's SHA-256 was found to be the listed one"),
            lambda c: c.digests.update({WEIGHTS: sha256(b"other")}),
            refused="digest",
            unpacked=True,
        ),
        case(
            "file-without-line-unpacked",
            "a file in a folder that MANIFEST does not list",
            ("`MANIFEST`", PAIRS),
            edited(lambda m: m.replace(b"model/weights.bin=" + digest + b"\n", b"")),
            refused="manifest",
            unpacked=True,
        ),
    ]


def toml_of_links(urls, sizes=None, version="1"):
    text = f"version = {version}\n\n[urls]\n" + "".join(f"{key} = {value}\n" for key, value in urls.items())
    if sizes is not None:
        text += "\n[sizes]\n" + "".join(f"{key} = {value}\n" for key, value in sizes.items())
    return text.encode()


DIGEST = sha256(bytes(range(40)))
URLS = ["https://example.com/a", "http://example.org/b?c=d"]
URLS_TOML = '["https://example.com/a", "http://example.org/b?c=d"]'


def links():
    section = "`LINKS`"
    needed = section, "A file that MANIFEST lists and the archive lacks must be linked here"
    format_ = section, "Each key is a digest as in MANIFEST, each value a list of one or more `http`, `https` or `file` URLs"

    def away(links_toml):
        def change(carton):
            carton.link_away(WEIGHTS, URLS)
            carton.add("LINKS", links_toml)

        return change

    def with_links(links_toml, **fields):
        return lambda c: c.add("LINKS", links_toml, **fields)

    def bad(name, about, shows, links_toml, reason="links"):
        return case(f"links-{name}", about, shows, with_links(links_toml), refused=reason)

    too_large = 64 * 1024 * 1024 + 1
    blocks = [zstd_block(1, b"\n", 131072)] * 512 + [zstd_block(1, b"\n", 1, last=True)]

    return [
        case("links", "a file that is linked and not included", needed, away(toml_of_links({DIGEST: URLS_TOML}))),
        case("links-unpacked", "the same in an unpacked carton", needed, away(toml_of_links({DIGEST: URLS_TOML})), unpacked=True),
        case(
            "links-included",
            "a file that is in the carton and linked too",
            (section, "A file may be in the carton and linked too; then the one in the carton is used"),
            with_links(toml_of_links({DIGEST: '["https://example.com/a"]'})),
        ),
        case(
            "links-of-another-file",
            "LINKS has a file that MANIFEST does not list",
            format_,
            with_links(toml_of_links({sha256(b"x"): '["https://example.com/a"]'})),
        ),
        case(
            "links-unknown-fields",
            "fields and tables that a reader does not know",
            (section, "Unknown fields are ignored; another version is refused"),
            with_links(b"more = [1]\n" + toml_of_links({}) + b"[other]\nx = 1\n"),
        ),
        case(
            "links-without-urls",
            "LINKS without a table of URLs",
            (section, "`urls` may be missing where it would be empty"),
            with_links(b"version = 1\n"),
        ),
        case(
            "links-missing",
            "a file that is neither there nor linked",
            needed,
            away(toml_of_links({sha256(b"x"): URLS_TOML})),
            refused="manifest",
        ),
        bad("version", "version 2", (section, "another version is refused"), toml_of_links({}, version="2"), "unsupported"),
        bad("no-version", "no version", (section, "another version is refused"), b"[urls]\n"),
        bad("no-toml", "no TOML", (section, "A TOML file with URLs for files by their SHA-256"), b"version = 1\n[urls\n"),
        bad("upper-case", "a digest in upper case", format_, toml_of_links({DIGEST.upper(): URLS_TOML})),
        bad("short-digest", "a digest of 63 digits", format_, toml_of_links({DIGEST[1:]: URLS_TOML})),
        bad("no-list", "a URL without a list", format_, toml_of_links({DIGEST: '"https://example.com/a"'})),
        bad("empty-list", "a list of no URLs", format_, toml_of_links({DIGEST: "[]"})),
        bad("ftp", "a URL of another scheme", format_, toml_of_links({DIGEST: '["ftp://example.com/a"]'})),
        bad("no-url", "a text that is no URL", format_, toml_of_links({DIGEST: '["weights.bin"]'})),
        bad(
            "url-with-line-feed",
            "a URL with a line feed",
            (section, "A URL has no white space and no control character"),
            toml_of_links({DIGEST: '["https://example.com/a\\n"]'}),
        ),
        case(
            "links-too-large",
            "LINKS has 64 MiB and a byte",
            (section, "At most 64 MiB."),
            with_links(b"", method=ZSTD, packed=zstd_frame(blocks), local={"size": too_large}, central={"size": too_large}),
            refused="limit",
        ),
        case(
            "links-of-a-link",
            "a symbolic link to a file that is linked",
            ("Names", "A chain of at most 40 links must end at a file that MANIFEST lists"),
            lambda c: link_to_linked_as_read(c, away),
        ),
    ]


def link_to_linked_as_read(carton, away):
    """A symbolic link in the carton whose file is elsewhere: it can be fetched from the same URLs."""
    away(toml_of_links({DIGEST: URLS_TOML}))(carton)
    carton.add("model/link", b"weights.bin", mode=LINK)
    carton.digests["model/link"] = DIGEST
    carton.urls["model/link"], carton.sizes["model/link"] = URLS, None


def sizes():
    def change(value, key=DIGEST, size=None, away=True):
        def change_(carton):
            if away:
                carton.link_away(WEIGHTS, URLS, size)
            carton.add("LINKS", toml_of_links({DIGEST: URLS_TOML}, {key: value}))

        return change_

    def sized(name, about, change_, words=SIZES, **more):
        shows = "Sizes of linked files", words
        return case(name, about, shows, change_, page="carton-format-extensions.md", **more)

    return [
        sized("sizes", "the size of a linked file", change("40", size=40)),
        sized(
            "sizes-of-no-file",
            "a size of a file that has no URLs",
            change("7", key=sha256(b"x")),
            words="Sizes of files without URLs mean nothing",
        ),
        sized("sizes-negative", "a size below 0", change("-1"), refused="links"),
        sized("sizes-text", "a size that is a text", change('"40"'), refused="links"),
        sized("sizes-float", "a size that is a float", change("40.0"), refused="links"),
        sized("sizes-upper-case", "a digest in upper case", change("40", key=DIGEST.upper()), refused="links"),
        sized(
            "sizes-no-table", "sizes that are no table", lambda c: c.add("LINKS", b"version = 1\nsizes = 3\n[urls]\n"), refused="links"
        ),
    ]
