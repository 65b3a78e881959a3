"""Opens a shrunk carton with only Python's standard library, and checks the entries of LINKS for the missing files.

    read_shrunk_carton.py FILE.carton

Prints the SHA-256 of MANIFEST. Any difference from the description of the format is an error, and exit status 1.
"""

import hashlib
import sys
import tomllib
import zipfile


def main():
    with zipfile.ZipFile(sys.argv[1]) as carton:
        assert carton.testzip() is None
        manifest = carton.read("MANIFEST")
        listed = dict(line.rsplit("=", 1) for line in manifest.decode().splitlines())
        links = tomllib.loads(carton.read("LINKS").decode())
        assert links["version"] == 1, links["version"]
        there = set(carton.namelist()) - {"MANIFEST", "LINKS"}
        for path in there:
            assert hashlib.sha256(carton.read(path)).hexdigest() == listed[path], path
        missing = set(listed) - there
        assert missing, "nothing is left out"
        for path in missing:
            assert links["urls"][listed[path]] == [f"https://example.com/files/{listed[path]}"], path
            assert links["sizes"][listed[path]] > 0, path
        assert set(links["urls"]) == {listed[path] for path in missing}
    print(hashlib.sha256(manifest).hexdigest())


if __name__ == "__main__":
    main()
