"""Reads every carton of the corpus, and opens its tensor files, and compares what the reader says with what the corpus has.

    python3 spec/reference/check_corpus.py [FOLDER]

FOLDER is a folder of cartons. Without one, the folders `cartons`, `safetensors` and `ztensor` of spec/conformance are read. Prints the cases
that differ, and fails if there are any.
"""

import hashlib
import json
import sys
from pathlib import Path

import carton_reader
import tensor_files
from refusal import Refused

CORPUS = Path(__file__).resolve().parent.parent / "conformance"
# The sections of ztensor.md whose rules are checked when a component is read or verified. The reader only opens files.
READ_LATER = {"3.4", "4.2", "4.3", "5.1", "5.2", "5.3", "5.4"}
# Of §2.2: attributes are decoded when they are asked for.
DECODED_LATER = {"attribute-twice"}


def differences(folder):
    """What is different of each case that the reader does not read as the corpus has it, and the number of cases."""
    found, n_cases = [], 0
    for description in sorted(Path(folder).glob("*.json")):
        n_cases += 1
        case = json.loads(description.read_text(encoding="utf-8"))
        expected = {key: case[key] for key in ("reads", "refused") if key in case}
        said, why = carton_reader.describe(description.with_suffix(""))
        if said != expected:
            found.append(f"{description.stem} ({case['about']})\n  expected {expected}\n  found    {said} {why or ''}")
    return found, n_cases


def tensor_differences(folder, read, says):
    """The same of tensor files: which are refused, and what the others say by `says`."""
    found, n_cases = [], 0
    for description in sorted(Path(folder).glob("*.json")):
        n_cases += 1
        case = json.loads(description.read_text(encoding="utf-8"))
        expected = case.get("refused") or says.of_case(case["reads"])
        try:
            said = says.of_tensors(read(description.with_suffix("").read_bytes()))
        except Refused as refused:
            said = refused.reason
        sections = {rule["section"] for rule in case["shows"]}
        is_later = "refused" in case and not isinstance(said, str) and (sections & READ_LATER or description.stem.split(".")[0] in DECODED_LATER)
        if said != expected and not is_later:
            found.append(f"{description.stem} ({case['about']})\n  expected {expected}\n  found    {said}")
    return found, n_cases


class Safetensors:
    """All of a safetensors file but its metadata."""

    @staticmethod
    def of_case(reads):
        return {one["name"]: (one["dtype"], one["shape"], one["sha256"]) for one in reads["tensors"]}

    @staticmethod
    def of_tensors(tensors):
        return {name: (dtype, shape, hashlib.sha256(content).hexdigest()) for name, (dtype, shape, content) in tensors.items()}


class ZTensor:
    """The names of the objects of a zTensor file."""

    @staticmethod
    def of_case(reads):
        return {one["name"] for one in reads["objects"]}

    @staticmethod
    def of_tensors(tensors):
        return set(tensors)


def of_whole_corpus():
    return [
        differences(CORPUS / "cartons"),
        tensor_differences(CORPUS / "safetensors", tensor_files.read_safetensors, Safetensors),
        tensor_differences(CORPUS / "ztensor", tensor_files.read_ztensor, ZTensor),
    ]


def main():
    groups = [differences(sys.argv[1])] if len(sys.argv) > 1 else of_whole_corpus()
    found, n_cases = [one for group, _ in groups for one in group], sum(count for _, count in groups)
    for difference in found:
        print(difference)
    print(f"{n_cases - len(found)} of {n_cases} cases are read as the corpus has them")
    sys.exit(1 if found or not n_cases else 0)


if __name__ == "__main__":
    main()
