"""Runs a model of Hugging Face that classifies images."""

import os

# Nothing is looked for in the Hub of Hugging Face.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy
import torch
import transformers
from PIL import Image

#: The model's folder, beside this file.
MODEL = "model"
#: The size of the example's images, as height and width.
EXAMPLE = (48, 64)


class Model:
    def __init__(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.processor = transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        self.model = transformers.AutoModelForImageClassification.from_pretrained(folder, **options()).eval().to(self.device)
        config = self.model.config
        self.labels = [config.id2label[index] for index in range(config.num_labels)]
        self.is_exclusive = config.num_labels > 1 and config.problem_type in (None, "single_label_classification")

    def signature(self):
        pixels = {"name": "pixels", "dtype": "uint8", "shape": ["batch", "height", "width", 3]}
        return {"inputs": [pixels], "outputs": self.outputs()}

    def outputs(self):
        n_labels = len(self.labels)
        described = [{"name": name, "dtype": "float32", "shape": ["batch", n_labels]} for name in ("logits", "scores")]
        described.append({"name": "labels", "dtype": "string", "shape": [n_labels]})
        if self.is_exclusive:
            described.append({"name": "label", "dtype": "string", "shape": ["batch"]})
        return described

    def classified(self, logits):
        """The logits, the scores that a pipeline makes of them, the labels of their columns, and the label of the best, if one alone holds."""
        scores = scores_of(self.model.config, logits)
        outputs = {"logits": logits, "scores": scores, "labels": texts_of(self.labels, len(self.labels))}
        if self.is_exclusive:
            outputs["label"] = texts_of([self.labels[best] for best in scores.argmax(axis=-1)], len(logits))
        return outputs

    def example(self):
        y, x = numpy.mgrid[: EXAMPLE[0], : EXAMPLE[1]]
        first = numpy.stack([x * 4, y * 5, x + y], axis=-1)
        return {"pixels": numpy.stack([first, 255 - first]).astype("uint8")}

    def infer_with_tensors(self, inputs):
        """Pixels are red, green and blue, row by row from the top. Their size is changed as the model's own settings say."""
        images = [Image.fromarray(numpy.ascontiguousarray(pixels)) for pixels in inputs["pixels"]]
        if not images:
            return self.classified(numpy.empty((0, len(self.labels)), "float32"))
        prepared = self.processor(images=images, return_tensors="pt").to(self.device)
        with torch.inference_mode():
            return self.classified(self.model(**prepared).logits.float().cpu().numpy())


def options():
    """Weights are read from safetensors alone, computed in float32, and no code of the folder is run."""
    name = "dtype" if version() >= (4, 56) else "torch_dtype"
    return {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True, name: torch.float32}


def version():
    return tuple(int(part) for part in transformers.__version__.split(".")[:2])


def scores_of(config, logits):
    """What a pipeline of transformers gives as scores."""
    if config.problem_type == "regression":
        return logits
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return 1.0 / (1.0 + numpy.exp(-logits))
    exponents = numpy.exp(logits - numpy.max(logits, axis=-1, keepdims=True))
    return exponents / exponents.sum(axis=-1, keepdims=True)


def texts_of(texts, shape):
    array = numpy.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)


def get_model():
    return Model()
