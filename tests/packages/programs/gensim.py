# part: slow
# requires: gensim==4.4.0
from gensim.corpora import Dictionary
from gensim.models import LdaModel, Word2Vec

TEXTS = [text.split() for text in ["the boat on the river", "a river to the sea", "the sea has a boat"] * 20]


def run():
    # One worker, because more make the order of the updates random.
    vectors = Word2Vec(TEXTS, vector_size=8, min_count=1, workers=1, seed=1, hashfxn=len).wv
    dictionary = Dictionary(TEXTS)
    corpus = [dictionary.doc2bow(text) for text in TEXTS]
    topics = LdaModel(corpus, num_topics=2, id2word=dictionary, random_state=1)
    return {"numbers": [*vectors["boat"], topics.log_perplexity(corpus)]}
