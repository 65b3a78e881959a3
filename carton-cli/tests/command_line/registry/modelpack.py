"""Checks a manifest and a configuration against the ModelPack specification (https://github.com/modelpack/model-spec, 0.0.7), whose JSON
schema for configurations has these demands, and whose page on manifests has the others."""

import json
import sys

import jsonschema

manifest, config = (json.load(open(path)) for path in sys.argv[1:])

text = {"type": "string", "minLength": 1}
jsonschema.validate(
    config,
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["descriptor", "config", "modelfs"],
        "properties": {
            "descriptor": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    **{key: text for key in ("family", "name", "version", "title", "description", "docURL", "sourceURL", "vendor", "revision")},
                    "createdAt": {"type": "string", "format": "date-time"},
                    **{key: {"type": "array", "items": text} for key in ("authors", "licenses", "datasetsURL")},
                },
            },
            "config": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    **{key: text for key in ("architecture", "format", "paramSize", "precision", "quantization")},
                    "capabilities": {"type": "object"},
                },
            },
            "modelfs": {
                "type": "object",
                "additionalProperties": False,
                "required": ["type", "diffIds"],
                "properties": {
                    "type": {"const": "layers"},
                    "diffIds": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}},
                },
            },
        },
    },
)

kinds = "|".join(["weight", "weight.config", "doc", "code", "dataset"])
descriptor = {
    "type": "object",
    "required": ["mediaType", "digest", "size"],
    "properties": {"digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}, "size": {"type": "integer", "minimum": 0}},
}
jsonschema.validate(
    manifest,
    {
        "type": "object",
        "required": ["schemaVersion", "mediaType", "artifactType", "config", "layers"],
        "properties": {
            "schemaVersion": {"const": 2},
            "mediaType": {"const": "application/vnd.oci.image.manifest.v1+json"},
            "artifactType": {"const": "application/vnd.cncf.model.manifest.v1+json"},
            "config": {**descriptor, "properties": {"mediaType": {"const": "application/vnd.cncf.model.config.v1+json"}}},
            "layers": {
                "type": "array",
                "minItems": 1,
                "items": {
                    **descriptor,
                    "required": [*descriptor["required"], "annotations"],
                    "properties": {
                        "mediaType": {"pattern": rf"^application/vnd\.cncf\.model\.({kinds.replace('.', chr(92) + '.')})\.v1\.(raw|tar|tar\+gzip|tar\+zstd)$"},
                        "annotations": {
                            "type": "object",
                            "required": ["org.cncf.model.filepath"],
                            "additionalProperties": {"type": "string"},
                        },
                    },
                },
            },
        },
    },
)
assert config["modelfs"]["diffIds"] == [layer["digest"] for layer in manifest["layers"]]
