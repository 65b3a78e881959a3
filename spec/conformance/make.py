"""Makes the corpus: python3 spec/conformance/make.py [FOLDER]

Writes all cases into this folder, or into another one. The same program gives the same bytes everywhere: it needs Python 3.9 or newer, and
neither compressors nor libraries of the formats have a part in it.
"""

import sys
from pathlib import Path

from maker import (
    cartons_archive,
    cartons_contents,
    cartons_metadata,
    cartons_names,
    cartons_tensors,
    checkpoints,
    dataset_index,
    datasets,
    safetensors_files,
    weights_merging,
    weights_models,
    weights_numbers,
    ztensor_files,
    ztensor_groups,
    ztensor_sparse,
)
from maker.case import write_all

HERE = Path(__file__).resolve().parent


def groups():
    """The cases by the folder that they are in."""
    return {
        "cartons": [
            *cartons_archive.cases(),
            *cartons_names.cases(),
            *cartons_contents.cases(),
            *cartons_metadata.cases(),
            *cartons_tensors.cases(),
        ],
        "safetensors": safetensors_files.cases(),
        "checkpoints": checkpoints.cases(),
        "ztensor": [*ztensor_files.cases(), *ztensor_sparse.cases(), *ztensor_groups.cases()],
        "datasets": [*datasets.cases(), *dataset_index.cases()],
        "weights": [*weights_numbers.cases(), *weights_models.cases(), *weights_merging.cases()],
    }


def main():
    write_all(groups(), sys.argv[1] if len(sys.argv) > 1 else HERE)


if __name__ == "__main__":
    main()
