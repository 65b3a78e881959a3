"""Runs a model of Hugging Face that classifies the tokens of texts."""

import os

# Nothing is looked for in the Hub of Hugging Face.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy
import torch
import transformers

#: The model's folder, beside this file.
MODEL = "model"
EXAMPLE = ("Ada Lovelace lived in London.", "The Seine flows through Paris, and the Thames does not.")


class Model:
    def __init__(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if not self.tokenizer.is_fast:
            raise TypeError("the tokenizer %s does not say where its tokens are: add a `tokenizer.json`" % type(self.tokenizer).__name__)
        self.model = transformers.AutoModelForTokenClassification.from_pretrained(folder, **options()).eval().to(self.device)
        config = self.model.config
        self.labels = [config.id2label[index] for index in range(config.num_labels)]

    def signature(self):
        tokens = ["batch", "tokens"]
        outputs = [
            {"name": "logits", "dtype": "float32", "shape": [*tokens, len(self.labels)]},
            {"name": "labels", "dtype": "string", "shape": [len(self.labels)]},
            {"name": "label", "dtype": "string", "shape": tokens},
            {"name": "offsets", "dtype": "int64", "shape": [*tokens, 2]},
            {"name": "is_token", "dtype": "bool", "shape": tokens},
        ]
        return {"inputs": [{"name": "text", "dtype": "string", "shape": ["batch"]}], "outputs": outputs}

    def example(self):
        return {"text": texts_of(EXAMPLE, len(EXAMPLE))}

    def infer_with_tensors(self, inputs):
        """Rows that only fill up a text, and those of tokens that the tokenizer adds, are marked in `is_token`, and have no label. Offsets are
        the first character of a token, and the one after its last."""
        texts = inputs["text"].tolist()
        if not texts:
            return self.outputs(numpy.empty((0, 0, len(self.labels)), "float32"), numpy.empty((0, 0, 2), "int64"), numpy.empty((0, 0), bool))
        if len(texts) > 1 and self.tokenizer.pad_token is None:
            raise ValueError("the tokenizer has nothing to fill shorter texts up with: pass one text a call")
        encoded = self.tokenizer(
            texts, padding=len(texts) > 1, return_tensors="pt", return_offsets_mapping=True, return_special_tokens_mask=True
        )
        offsets, special = encoded.pop("offset_mapping").numpy(), encoded.pop("special_tokens_mask").numpy()
        self.check(encoded)
        is_token = (special == 0) & (encoded["attention_mask"].numpy() == 1)
        with torch.inference_mode():
            logits = self.model(**encoded.to(self.device)).logits.float().cpu().numpy()
        return self.outputs(logits, offsets.astype("int64"), is_token)

    def outputs(self, logits, offsets, is_token):
        pairs = zip(logits.argmax(axis=-1).ravel().tolist(), is_token.ravel().tolist())
        label = texts_of([self.labels[best] if counts else "" for best, counts in pairs], is_token.shape)
        labels = texts_of(self.labels, len(self.labels))
        return {"logits": logits, "labels": labels, "label": label, "offsets": offsets, "is_token": is_token}

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


def texts_of(texts, shape):
    array = numpy.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)


def get_model():
    return Model()
