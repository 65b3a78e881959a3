# A blank pipeline, which needs no download.
# part: slow
# requires: spacy==3.8.18
import spacy


def run():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "CITY", "pattern": [{"LOWER": "bonn"}]}])
    document = nlp("They don't live in Bonn. They live in Mr. Brown's house, near BONN!")
    batch = list(nlp.pipe(["One sentence.", "Two. Sentences."] * 10))
    return {"numbers": [len(document), len(list(document.sents)), len(document.ents), sum(map(len, batch))]}
