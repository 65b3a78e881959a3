# part: slow
# requires: sentence-transformers==6.2.0 torch==2.15.0 numpy==2.4.6
import tempfile

import torch
from sentence_transformers import SentenceTransformer, models
from transformers import BertConfig, BertModel, BertTokenizerFast

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a boat on the river sails to sea".split()


def run():
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/vocab.txt", "w") as vocabulary:
            vocabulary.write("\n".join(WORDS))
        BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
        config = BertConfig(vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        BertModel(config).save_pretrained(folder)
        words = models.Transformer(folder, max_seq_length=16)
        model = SentenceTransformer(modules=[words, models.Pooling(32)], device="cpu")
        vectors = model.encode(["a boat on the river", "the boat sails to sea"])
        similarity = model.similarity(vectors, vectors)
    return {"numbers": [*vectors[0][:4].tolist(), *similarity.flatten().tolist()]}
