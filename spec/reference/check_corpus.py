"""Reads every carton of the corpus and compares what the reader says with what the corpus has.

    python3 spec/reference/check_corpus.py [FOLDER]

FOLDER is spec/conformance/cartons unless another one is named. Prints the cases that differ, and fails if there are any.
"""

import json
import sys
from pathlib import Path

import carton_reader

CARTONS = Path(__file__).resolve().parent.parent / "conformance" / "cartons"


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


def main():
    found, n_cases = differences(sys.argv[1] if len(sys.argv) > 1 else CARTONS)
    for difference in found:
        print(difference)
    print(f"{n_cases - len(found)} of {n_cases} cases are read as the corpus has them")
    sys.exit(1 if found or not n_cases else 0)


if __name__ == "__main__":
    main()
