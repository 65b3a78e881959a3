"""The examples of a container and for Kubernetes: the schema, and that the program takes their configuration and options."""

import json
import re
import shutil
import subprocess
import urllib.request

import pytest
import yaml
from conftest import REPOSITORY, program, serve
from kubernetes_validate import validate

EXAMPLES = REPOSITORY / "examples" / "serve"
DOCUMENTS = list(yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
def test_the_schema(document):
    validate(document, "1.37", strict=True)


def test_the_configuration_is_served(environment, cartons, tmp_path):
    [text] = [document["data"]["serve.toml"] for document in DOCUMENTS if document["kind"] == "ConfigMap"]
    (tmp_path / "models").mkdir()
    shutil.copy(cartons["digits"], tmp_path / "models" / "digits.carton")
    text = text.replace('"/models"', '"models"')
    # The delay is for the endpoints of a cluster.
    text = re.sub(r"drain_delay = \d+", "drain_delay = 0", text)
    (tmp_path / "serve.toml").write_text(text)
    with serve(environment, {}, "--file", str(tmp_path / "serve.toml")) as running:
        with urllib.request.urlopen(running.url("v2/models/digits"), timeout=20) as answer:
            assert json.load(answer)["versions"] == ["1"]


def test_the_image_names_options_that_exist(environment):
    [command] = re.findall(r"^CMD (.*)$", (EXAMPLES / "Containerfile").read_text(), re.MULTILINE)
    options = [argument for argument in json.loads(command) if argument.startswith("--")]
    answer = subprocess.run([program(), "serve", "--help"], capture_output=True, text=True, env=environment, check=True)
    assert options and all(option in answer.stdout for option in options)
