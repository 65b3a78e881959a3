"""Runs Whisper, which writes down speech."""

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
        self.model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(folder, **options()).eval().to(self.device)
        self.rate = self.processor.feature_extractor.sampling_rate

    def signature(self):
        description = "one channel, from -1 to 1, %d samples a second" % self.rate
        outputs = [{"name": "text", "dtype": "string", "shape": []}, {"name": "tokens", "dtype": "int64", "shape": ["tokens"]}]
        return {"inputs": [{"name": "samples", "dtype": "float32", "shape": ["samples"], "description": description}], "outputs": outputs}

    def example(self):
        seconds = numpy.arange(int(self.rate * 1.5)) / self.rate
        return {"samples": (numpy.sin(seconds * 2764.6) * numpy.sin(seconds * 12)).astype("float32")}

    def infer_with_tensors(self, inputs):
        samples = numpy.array(inputs["samples"])
        limit = self.processor.feature_extractor.n_samples
        if len(samples) > limit:
            raise ValueError("%d samples are more than the %d that Whisper takes: split the recording" % (len(samples), limit))
        prepared = self.processor(samples, sampling_rate=self.rate, return_tensors="pt", return_attention_mask=True).to(self.device)
        with torch.inference_mode():
            tokens = self.model.generate(**prepared).cpu()
        (text,) = self.processor.batch_decode(tokens, skip_special_tokens=True)
        return {"text": texts_of([text], ()), "tokens": tokens[0].numpy()}


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
