# part: slow
# requires: sentencepiece==0.2.3
import io

import sentencepiece

TEXTS = ["the boat sails on the river", "the river runs to the sea", "a sea of boats"] * 20


def run():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=24, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return {"numbers": [processor.get_piece_size(), *processor.encode("the boats run to the sea")]}
