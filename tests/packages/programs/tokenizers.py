# part: quick
# requires: tokenizers==0.23.3
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TEXTS = ["the boat sails on the river", "the river runs to the sea", "a sea of boats"] * 20


def run():
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=60, special_tokens=["[UNK]"], show_progress=False))
    encoded = tokenizer.encode_batch(["boats on the sea", "river runs"])
    return {"numbers": [tokenizer.get_vocab_size(), *encoded[0].ids, *encoded[1].ids]}
