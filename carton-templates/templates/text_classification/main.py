"""Runs a model of Hugging Face that classifies texts."""

import os

# Nothing is looked for in the Hub of Hugging Face.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy
import torch
import transformers

#: The model's folder, beside this file.
MODEL = "model"
EXAMPLE = ("The quick brown fox jumps over the lazy dog.", "What a good movie!", "I have never seen anything worse, and I want my money back.")


class Model:
    def __init__(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, **options()).eval().to(self.device)
        config = self.model.config
        self.labels = [config.id2label[index] for index in range(config.num_labels)]
        self.is_exclusive = config.num_labels > 1 and config.problem_type in (None, "single_label_classification")

    def signature(self):
        return {"inputs": [{"name": "text", "dtype": "string", "shape": ["batch"]}], "outputs": self.outputs()}

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
        return {"text": texts_of(EXAMPLE, len(EXAMPLE))}

    def infer_with_tensors(self, inputs):
        texts = inputs["text"].tolist()
        logits = [numpy.empty((0, len(self.labels)), "float32")]
        # All together, or each alone if the tokenizer and the model do not agree on what fills shorter texts up.
        fills = self.tokenizer.pad_token_id is not None and self.tokenizer.pad_token_id == self.model.config.pad_token_id
        size = max(1, len(texts)) if fills else 1
        for start in range(0, len(texts), size):
            encoded = self.tokenizer(texts[start : start + size], padding=size > 1, return_tensors="pt")
            self.check(encoded)
            with torch.inference_mode():
                logits.append(self.model(**encoded.to(self.device)).logits.float().cpu().numpy())
        return self.classified(numpy.concatenate(logits))

    def check(self, encoded):
        """Refuses texts that are too long for the model, instead of cutting them off."""
        limits = [self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", None) or 10**9]
        lengths = encoded["attention_mask"].sum(dim=1).tolist()
        for index, length in enumerate(lengths):
            if length > min(limits):
                raise ValueError("text %d has %d tokens, and the model takes %d: shorten or split it" % (index, length, min(limits)))


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
