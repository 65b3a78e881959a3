"""Reads a bill of materials with the libraries of its makers, and prints what they found in it, one fact a line.

    check_bom.py cyclonedx FILE
    check_bom.py spdx FILE [JSON-SCHEMA]

CycloneDX: the strict validator of cyclonedx-python-lib, which has the official schema, and its reader. SPDX: the official bindings, which are
made of the model and check types, numbers of values, and vocabularies; and with a schema, jsonschema. Ends with 1 if the document is invalid.
"""

import json
import sys
from pathlib import Path


def cyclonedx(text):
    from cyclonedx.model.bom import Bom
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        sys.exit(f"invalid: {error}")
    bom = Bom.from_json(json.loads(text))
    model = bom.metadata.component
    print(f"model {model.type.value} {model.name} {' '.join(sorted(f'{h.alg.value}:{h.content}' for h in model.hashes))}")
    for component in sorted(model.components, key=lambda component: component.name):
        print(f"file {component.name} {' '.join(h.content for h in component.hashes)}")
    for component in sorted(bom.components, key=lambda component: component.bom_ref.value):
        licenses = " ".join(getattr(license, "value", None) or license.name for license in component.licenses)
        print(f"{component.type.value} {component.name} {component.version} {component.purl or '-'} {licenses or '-'}")
    for ancestor in model.pedigree.ancestors if model.pedigree else []:
        print(f"ancestor {ancestor.name} {' '.join(h.content for h in ancestor.hashes)}")
    for dependency in sorted(bom.dependencies, key=lambda dependency: dependency.ref.value):
        print(f"depends {dependency.ref.value} {len(dependency.dependencies)}")
    print(f"serial {bom.serial_number}")
    # The reader has no model cards yet: the validator alone sees them.
    card = json.loads(text)["metadata"]["component"].get("modelCard", {})
    print(f"card {' '.join(sorted(card))}")


def spdx(text, schema):
    from spdx_python_model import v3_0_1 as spdx3

    if schema:
        import jsonschema

        validator = jsonschema.Draft202012Validator(json.loads(Path(schema).read_text()))
        found = [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(json.loads(text))]
        if found:
            sys.exit("invalid: " + "\n".join(found))
    objects = spdx3.SHACLObjectSet()
    spdx3.JSONLDDeserializer().deserialize_data(json.loads(text), objects)
    missing = objects.link()
    if missing:
        sys.exit(f"invalid: nothing has the identifiers {sorted(missing)}")
    (document,) = objects.foreach_type(spdx3.SpdxDocument)
    (model,) = document.rootElement
    print(f"model {model.software_primaryPurpose.rsplit('/', 1)[1]} {model.name} {hashes(model)}")
    for relationship in objects.foreach_type(spdx3.Relationship):
        kind = relationship.relationshipType.rsplit("/", 1)[1]
        for target in sorted(relationship.to, key=lambda target: shown(target)):
            print(f"{relationship.from_.name} {kind} {shown(target)} {hashes(target)}".rstrip())
    for metric in model.ai_metric:
        print(f"metric {metric.key} {metric.value}")
    if model.ai_energyConsumption:
        for used in [*model.ai_energyConsumption.ai_trainingEnergyConsumption, *model.ai_energyConsumption.ai_finetuningEnergyConsumption]:
            print(f"energy {used.ai_energyQuantity} {used.ai_energyUnit.rsplit('/', 1)[1]}")
    # What the bindings would not write is found here.
    spdx3.JSONLDSerializer().serialize_data(objects)


def shown(element):
    name = getattr(element, "simplelicensing_licenseExpression", None) or element.name
    version = getattr(element, "software_packageVersion", None)
    return f"{name}=={version}" if version else name


def hashes(element):
    return " ".join(f"{method.algorithm.rsplit('/', 1)[1]}:{method.hashValue}" for method in element.verifiedUsing)


def main():
    kind, path, *rest = sys.argv[1:]
    text = Path(path).read_text()
    if kind == "cyclonedx":
        cyclonedx(text)
    else:
        spdx(text, rest[0] if rest else None)


main()
