"""Model cards and bills of materials, through the module. The command's tests read the documents with others' libraries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import carton

METADATA = """
[card]
intended_use = "Tests."
datasets = ["ylecun/mnist"]
results = [{ metric = "accuracy", value = 0.98, dataset = "ylecun/mnist" }]
"""


@pytest.fixture
def package(tmp_path: Path) -> carton.Package:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights.bin").write_bytes(b"1")
    (tmp_path / "model/README.md").write_text("---\ntags: [digits]\nintended_use: not this\n---\n# Model\n")
    (tmp_path / "carton.toml").write_text(METADATA)
    packed = carton.pack(tmp_path / "model", tmp_path / "a.carton", runner="noop", metadata=tmp_path / "carton.toml")
    return carton.open(packed.path)


def test_the_card_is_that_of_the_metadata_and_the_readme(package: carton.Package) -> None:
    card = package.info().card
    assert card["intended_use"] == "Tests."
    assert card["tags"] == ["digits"]
    assert card["results"] == [{"metric": "accuracy", "value": 0.98, "dataset": "ylecun/mnist"}]


def test_bills_of_materials(package: carton.Package, monkeypatch: pytest.MonkeyPatch) -> None:
    first = package.bom("cyclonedx")
    assert package.bom("cyclonedx") == first
    model = json.loads(first)["metadata"]["component"]
    assert model["hashes"] == [{"alg": "SHA-256", "content": package.manifest_sha256}]
    assert model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"][0]["value"] == "0.98"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    document = json.loads(package.bom("spdx"))
    assert document["@graph"][0]["created"] == "1970-01-02T00:00:00Z"
    assert {"core", "software", "ai"} <= set(next(e for e in document["@graph"] if e["type"] == "SpdxDocument")["profileConformance"])


def test_what_is_no_bill_of_materials(package: carton.Package, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(carton.InvalidInputError, match="`xml` is no format"):
        package.bom("xml")  # type: ignore[arg-type]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(carton.InvalidInputError, match="expected seconds since 1970"):
        package.bom("spdx")
