"""Cartons whose names and links are what the case is about (carton-format.md, "Names")."""

from .case import Case
from .little_carton import least, sha256
from .zip_records import FILE, FOLDER, LINK, UTF8

DOTS = "a component `.` or `..`"
EMPTY = "paths that are empty, begin or end with `/` (the entry of a folder ends with one), or have an empty component"
CONTROL = "NUL, line feed and carriage return"
BACK_SLASH = "a back slash, which is never written. **Accepted** is one below a folder at the top"
UTF_8 = "anything that is not UTF-8, whatever the zip flag for UTF-8 says"
LENGTH = "more than 3072 bytes"
TWICE = "the same path twice, and a path inside another one that is a file or a link"
SELF = "`MANIFEST` and `LINKS` must be files themselves, not links or folders"
OUT = "It may go up, but not out of the carton"
MODEL = "a link in `model/` must stay in `model/`, since a runner sees nothing else"
CHAIN = "A chain of at most 40 links must end at a file that MANIFEST lists"
NOWHERE = "a link to nothing, to a folder, or in a circle is refused"


def case(name, about, words, change, refused=None, by="format", unpacked=False, section="Names"):
    carton = least()
    change(carton)
    file, content = (name, carton.unpacked()) if unpacked else (f"{name}.carton", carton.packed())
    shows = [("carton-format.md", section, words)]
    return Case(file, about, shows, content, refused=refused, reads=None if refused else carton.reads(), by=by)


def cases():
    return [*names(), *names_together(), *links()]


def names():
    def add(path, **fields):
        return lambda c: c.add(path, b"x", **fields)

    def bad(name, about, words, path, **fields):
        return case(f"name-{name}", about, words, add(path, **fields), refused="name")

    def good(name, about, words, path, **fields):
        return case(f"name-{name}", about, words, add(path, **fields))

    deep = "model/" + "/".join(["d" * 200] * 15) + "/"

    def in_manifest(path):
        def change(carton):
            carton.manifest = lambda right: right + path + b"=" + sha256(b"x").encode() + b"\n"

        return change

    return [
        bad("upwards", "a path that leads out of the carton", DOTS, "../x"),
        bad("upwards-within", "`..` in the middle", DOTS, "model/../x"),
        bad("here", "a component `.`", DOTS, "model/./x"),
        case("name-upwards-folder", "a folder that leads out", DOTS, lambda c: c.add("model/../../", mode=FOLDER), refused="name"),
        bad("absolute", "a path that begins with a slash", EMPTY, "/etc/x"),
        bad("empty", "a path of no bytes", EMPTY, ""),
        bad("empty-component", "two slashes in a row", EMPTY, "model//x"),
        case("name-of-a-slash", "a folder whose name is a slash", EMPTY, lambda c: c.add("/", mode=FOLDER), refused="name"),
        bad("line-feed", "a line feed", CONTROL, "model/a\nb"),
        bad("carriage-return", "a carriage return", CONTROL, "model/a\rb"),
        bad("nul", "a NUL", CONTROL, "model/a\0b"),
        good("tab", "a control character that is allowed", CONTROL, "model/a\tb"),
        bad("not-utf-8", "a path that is not UTF-8, and not said to be", UTF_8, b"model/\xe9t\xe9", flags=0),
        bad("overlong-utf-8", "UTF-8 with an overlong slash", UTF_8, b"model/\xc0\xaf", flags=UTF8),
        bad("surrogate", "UTF-8 with a surrogate", UTF_8, b"model/\xed\xa0\x80", flags=UTF8),
        good("utf-8", "a path of other letters, with the flag for UTF-8", UTF_8, "model/größe 重み"),
        good("utf-8-without-the-flag", "the same without the flag", UTF_8, "model/größe 重み", flags=0),
        good("of-3072-bytes", "the longest path", LENGTH, deep + "x" * (3072 - len(deep))),
        bad("of-3073-bytes", "a byte more", LENGTH, deep + "x" * (3073 - len(deep))),
        case("name-back-slash", "a back slash below a folder", BACK_SLASH, add("misc/in\\cat.png"), by="carton"),
        bad("back-slash-at-the-top", "a back slash that is not below a folder", BACK_SLASH, "misc\\cat.png"),
        bad("back-slash-upwards", "a back slash that leads out for a reader that takes it for a slash", BACK_SLASH, "misc/..\\..\\x"),
        bad("back-slash-drive", "a drive for a reader that takes a back slash for a slash", BACK_SLASH, "misc/C:\\x"),
        bad("back-slash-empty", "an empty component for such a reader", BACK_SLASH, "misc/\\x"),
        case(
            "name-in-manifest-alone",
            "MANIFEST has a path that is not allowed",
            "The same rules hold for entries of the zip file and for the paths in MANIFEST",
            in_manifest(b"../x"),
            refused="name",
        ),
    ]


def names_together():
    def both(*paths):
        def change(carton):
            for path in paths:
                carton.add(path, b"" if path.endswith("/") else b"x", mode=FOLDER if path.endswith("/") else FILE)

        return change

    def twice(carton):
        carton.add("model/weights.bin", b"other")

    return [
        case("path-twice", "two entries of one path", TWICE, twice, refused="name"),
        case("path-inside-a-file", "a path inside a file", TWICE, both("model/weights.bin/x"), refused="name"),
        case(
            "path-inside-a-link",
            "a path inside a symbolic link",
            TWICE,
            lambda c: [c.add_link("model/link", "weights.bin", bytes(range(40))), c.add("model/link/x", b"x")],
            refused="name",
        ),
        case("path-of-file-and-folder", "a file and a folder of one name", TWICE, both("model/weights.bin/"), refused="name"),
        case(
            "path-of-folder-twice",
            "two entries for one folder",
            TWICE,
            lambda c: [c.add("model/", mode=FOLDER), c.add("model/", mode=FOLDER)],
            refused="name",
        ),
        case(
            "back-slash-twice",
            "two files of one path for a reader that takes a back slash for a slash",
            "it is no other file of MANIFEST and not inside one",
            both("misc/a/b", "misc/a\\b"),
            refused="name",
        ),
        case(
            "back-slash-inside-a-file",
            "a path inside a file for such a reader",
            "it is no other file of MANIFEST and not inside one",
            both("misc/a", "misc/a\\b"),
            refused="name",
        ),
        case(
            "back-slash-has-a-file-inside",
            "a file with a path inside it for such a reader",
            "nor is another inside it",
            both("misc/a\\b", "misc/a/b/c"),
            refused="name",
        ),
        case(
            "names-that-differ-by-case",
            "names that differ only by case",
            "Names that differ only by case are different names",
            both("misc/a", "misc/A"),
        ),
    ]


def links():
    data = bytes(range(40))

    def link(path, target, leads_to=data):
        return lambda c: c.add_link(path, target, leads_to)

    def chain(n_links):
        def change(carton):
            for n in range(n_links):
                carton.add_link(f"model/link{n:02}", "weights.bin" if n + 1 == n_links else f"link{n + 1:02}", data)

        return change

    def bad(name, about, words, path, target):
        return case(f"link-{name}", about, words, link(path, target), refused="link")

    def circle(carton):
        carton.add_link("model/one", "two")
        carton.add_link("model/two", "one")

    def as_link(path):
        def change(carton):
            carton.add("misc/it", b"version = 1\n")
            carton.add(path, b"misc/it", mode=LINK)
            if path == "MANIFEST":
                carton.manifest = lambda right: None

        return change

    def folder_of(path):
        return lambda c: c.add(path, mode=FOLDER)

    return [
        case("link", "a symbolic link to a file beside it", CHAIN, link("model/link", "weights.bin")),
        case("link-up", "a link that goes up and down, with `.` and `..`", OUT, link("model/in/link", "./.././in/../weights.bin")),
        case("link-in-misc", "a link in misc/ that leads into model/", MODEL, link("misc/link", "../model/weights.bin")),
        case("link-unpacked", "the same in an unpacked carton", MODEL, link("misc/link", "../model/weights.bin"), unpacked=True),
        case("link-chain-of-40", "40 links, one after the other", CHAIN, chain(40)),
        case("link-chain-of-41", "41 links, one after the other", CHAIN, chain(41), refused="link"),
        case("link-out", "a link out of the carton", OUT, link("misc/link", "../../x"), refused="link"),
        bad("out-and-in-again", "a link out of the carton and in again", OUT, "misc/link", "../../carton/model/weights.bin"),
        bad(
            "absolute",
            "an absolute target",
            "A target is text in UTF-8 of at most 3072 bytes, neither empty nor beginning with `/`",
            "model/link",
            "/etc/passwd",
        ),
        bad(
            "empty",
            "an empty target",
            "A target is text in UTF-8 of at most 3072 bytes, neither empty nor beginning with `/`",
            "model/link",
            "",
        ),
        bad("out-of-model", "a link in model/ to a file of the carton that is not in it", MODEL, "model/link", "../carton.toml"),
        bad("to-nothing", "a link to nothing", NOWHERE, "model/link", "nothing"),
        bad("to-a-folder", "a link to a folder", NOWHERE, "misc/link", "../model"),
        bad("to-manifest", "a link to MANIFEST, which MANIFEST does not list", CHAIN, "misc/link", "../MANIFEST"),
        case(
            "link-not-utf-8",
            "a target that is not UTF-8",
            "A target is text in UTF-8 of at most 3072 bytes",
            lambda c: c.add_link("model/link", b"\xff"),
            refused="link",
        ),
        case(
            "link-too-long",
            "a target of 3073 bytes",
            "A target is text in UTF-8 of at most 3072 bytes",
            link("model/link", "./" * 1531 + "weights.bin"),
            refused="limit",
        ),
        case(
            "link-of-3072-bytes",
            "a target of 3072 bytes, with empty components",
            "its empty components and those of `.` mean nothing",
            link("model/link", "./" * 1530 + "/weights.bin"),
        ),
        case(
            "link-to-a-back-slash",
            "a link to a file whose name has a back slash",
            "and what is left must be a path as above, without a back slash",
            lambda c: [c.add("misc/a\\b", b"x"), c.add_link("misc/link", "a\\b", b"x")],
            refused="link",
        ),
        case("link-circle", "two links that lead to each other", NOWHERE, circle, refused="link"),
        bad(
            "target-with-back-slash", "a target with a back slash, which is a part of a name", NOWHERE, "model/link", "..\\weights.bin"
        ),
        case(
            "link-of-the-text",
            "MANIFEST has the digest of the link's target instead of that of the file",
            "the digest of the file that it leads to",
            link("model/link", "weights.bin", b"weights.bin"),
            refused="digest",
            section="`MANIFEST`",
        ),
        case("link-unpacked-out", "a link out of an unpacked carton", OUT, link("misc/link", "../../x"), refused="link", unpacked=True),
        case("link-unpacked-circle", "a circle in an unpacked carton", NOWHERE, circle, refused="link", unpacked=True),
        case("manifest-is-a-link", "MANIFEST is a symbolic link", SELF, as_link("MANIFEST"), refused="link"),
        case("links-is-a-link", "LINKS is a symbolic link", SELF, as_link("LINKS"), refused="link"),
        case("links-is-a-folder", "LINKS is a folder", SELF, folder_of("LINKS/"), refused="name"),
    ]
