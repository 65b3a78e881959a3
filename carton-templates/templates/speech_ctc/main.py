"""Runs a model of Hugging Face that writes down speech (CTC)."""

import os

# Nothing is looked for in the Hub of Hugging Face.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy
import torch
import transformers

#: The model's folder, beside this file.
MODEL = "model"


class Model:
    def __init__(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.processor = transformers.AutoProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if hasattr(self.processor, "decoder"):
            raise TypeError("the folder has a language model for decoding, which needs packages beyond transformers: remove it to go without")
        self.model = transformers.AutoModelForCTC.from_pretrained(folder, **options()).eval().to(self.device)
        self.rate = self.processor.feature_extractor.sampling_rate

    def signature(self):
        description = "one channel, from -1 to 1, %d samples a second" % self.rate
        outputs = [
            {"name": "logits", "dtype": "float32", "shape": ["frames", self.model.config.vocab_size]},
            {"name": "text", "dtype": "string", "shape": []},
        ]
        return {"inputs": [{"name": "samples", "dtype": "float32", "shape": ["samples"], "description": description}], "outputs": outputs}

    def example(self):
        seconds = numpy.arange(int(self.rate * 1.5)) / self.rate
        return {"samples": (numpy.sin(seconds * 2764.6) * numpy.sin(seconds * 12)).astype("float32")}

    def infer_with_tensors(self, inputs):
        # A copy, because PyTorch does not respect that the array is read-only.
        prepared = self.processor(numpy.array(inputs["samples"]), sampling_rate=self.rate, return_tensors="pt").to(self.device)
        with torch.inference_mode():
            logits = self.model(**prepared).logits.float().cpu()
        (text,) = self.processor.batch_decode(logits.argmax(dim=-1))
        return {"logits": logits[0].numpy(), "text": texts_of([text], ())}


def options():
    """Weights are read from safetensors alone, computed in float32, and no code of the folder is run."""
    name = "dtype" if version() >= (4, 56) else "torch_dtype"
    return {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True, name: torch.float32}


def version():
    return tuple(int(part) for part in transformers.__version__.split(".")[:2])


def texts_of(texts, shape):
    array = numpy.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)


def get_model():
    return Model()
