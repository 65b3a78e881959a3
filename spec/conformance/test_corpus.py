"""The corpus is what the script makes, says what stands in the specification, and covers all of its demands."""

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
sys.path[:0] = [str(HERE), str(SPEC / "reference")]

import make  # noqa: E402
import rules  # noqa: E402
from maker.case import write_all  # noqa: E402
from refusal import REASONS  # noqa: E402

MAX_SIZE = 2_000_000
# Reasons that the reader of cartons does not have.
OF_WEIGHTS = ("description", "weights")


def page(name):
    return (SPEC / name).read_text(encoding="utf-8")


def descriptions():
    """The JSON of every case by its path."""
    folders = [HERE / group for group in make.groups()]
    return {path: json.loads(path.read_text(encoding="utf-8")) for folder in folders for path in sorted(folder.glob("*.json"))}


def files(folder):
    """What is in a folder: bytes of files and targets of links, by path."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = path.readlink()
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


class Corpus(unittest.TestCase):
    maxDiff = 4000

    def test_is_made_again_to_the_byte(self):
        with tempfile.TemporaryDirectory() as folder:
            write_all(make.groups(), folder)
            for group in make.groups():
                made, kept = files(Path(folder) / group), files(HERE / group)
                self.assertEqual(sorted(made), sorted(kept), f"the cases of {group}")
                differ = [path for path in made if made[path] != kept[path]]
                self.assertEqual(differ, [], f"these cases of {group} are not what make.py makes")

    def test_is_small(self):
        # What Python compiles beside its sources is not part of it.
        kept = [path for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        size = sum(path.lstat().st_size for path in kept)
        self.assertLess(size, MAX_SIZE)

    def test_cases_name_what_stands_in_the_specification(self):
        blocks = {name: rules.sections(page(name)) for name in rules.PAGES}
        for path, case in descriptions().items():
            self.assertTrue(case["shows"], f"{path.name} shows nothing")
            for rule in case["shows"]:
                stands = any(section == rule["section"] and rule["words"] in block for section, block in blocks.get(rule["page"], ()))
                self.assertTrue(stands, f"{path.name}: {rule}")

    def test_every_demand_is_shown_or_has_a_reason(self):
        named = [rule for case in descriptions().values() for rule in case["shows"]]
        excused = json.loads((HERE / "not-shown.json").read_text(encoding="utf-8"))
        groups = " ".join(make.groups())
        for name in rules.PAGES:
            for section, sentence in rules.demands(page(name)):
                shown = [rule for rule in named if rule["page"] == name and is_of(rule, section, sentence)]
                reasons = [rule for rule in excused if rule["page"] == name and is_of(rule, section, sentence)]
                self.assertTrue(shown or reasons, f"no case shows this sentence of {name}, {section} ({groups}): {sentence}")
                self.assertFalse(shown and reasons, f"shown by a case, and excused: {sentence}")

    def test_excuses_are_of_demands(self):
        for rule in json.loads((HERE / "not-shown.json").read_text(encoding="utf-8")):
            self.assertTrue(rule["why"], rule)
            demands = rules.demands(page(rule["page"]))
            self.assertTrue(any(is_of(rule, section, sentence) for section, sentence in demands), rule)

    def test_reasons_are_those_of_the_list(self):
        found = {case["refused"] for case in descriptions().values() if "refused" in case}
        findings = {block.split("`")[1] for section, block in rules.sections(page("dataset.md")) if section == "7" and "| `" in block}
        self.assertIn("missing", findings)
        self.assertLessEqual(found, {*REASONS, *findings, "altered", *OF_WEIGHTS})
        readme = (HERE / "README.md").read_text(encoding="utf-8")
        for reason in OF_WEIGHTS:
            self.assertIn(f"| `{reason}` |", readme)
        for reason, text in REASONS.items():
            self.assertIn(f"| `{reason}` | {text} |", readme)

    def test_findings_of_ztensor_files_are_those_of_the_list(self):
        cases = [case for path, case in descriptions().items() if path.parent.name == "ztensor"]
        found = {finding for case in cases for finding in case.get("reads", {}).get("findings", ())}
        readme = (HERE / "README.md").read_text(encoding="utf-8")
        self.assertEqual(found, set(re.findall(r"^\| `([a-z-]+)` \|", readme.split("| Finding | |")[1].split("\n\n")[0], re.MULTILINE)))

    def test_arrays_that_cannot_be_made_have_a_reason(self):
        objects = [one for case in descriptions().values() for one in case.get("reads", {}).get("objects", ())]
        found = {one["dense"]["refused"] for one in objects if "refused" in one.get("dense", {})}
        self.assertEqual(found, {"tensor", "limit"})
        for one in objects:
            self.assertEqual("dense" in one, one["format"] in ("sparse_csr", "sparse_coo", "quantized_group"), one)

    def test_cases_say_one_thing(self):
        for path, case in descriptions().items():
            self.assertEqual(("reads" in case) + ("refused" in case), 1, path.name)
            self.assertIn(case["by"], ("format", "carton"), path.name)
            self.assertTrue(path.with_suffix("").exists(), path.name)


@unittest.skipIf(sys.version_info < (3, 11), "the reference reader needs tomllib, which is in Python 3.11 and newer")
class Reader(unittest.TestCase):
    def test_reads_every_carton_as_the_corpus_has_it(self):
        import check_corpus

        found, n_cases = check_corpus.differences(HERE / "cartons")
        self.assertEqual(found, [])
        self.assertGreater(n_cases, 300)

    def test_opens_every_tensor_file_as_the_corpus_has_it(self):
        import check_corpus

        for found, n_cases in check_corpus.of_whole_corpus()[1:]:
            self.assertEqual(found, [])
            self.assertGreater(n_cases, 100)


def is_of(rule, section, sentence):
    """Whether a rule names a sentence: its words are in it, or it is in them."""
    return rule["section"] == section and (rule["words"] in sentence or sentence.rstrip(".:;") in rule["words"])


if __name__ == "__main__":
    unittest.main()
