"""The template of spaCy beside the pipeline itself."""

import json

import numpy
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from written import check_signature, written

TEXTS = ["Ada Lovelace wrote it. So she did.", "", "naïve café 😀"]


def pipeline():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("textcat")
    recognizer = nlp.add_pipe("ner")
    ruler = nlp.add_pipe("entity_ruler", before="ner")
    recognizer.add_label("PLACE")
    spacy.util.fix_random_seed(1)
    nlp.initialize(lambda: [Example.from_dict(nlp.make_doc(TEXTS[0]), {"cats": {"good": 1.0, "bad": 0.0}})])
    ruler.add_patterns([{"label": "PERSON", "pattern": "Ada Lovelace"}])
    return nlp


def test_documents_and_scores_are_those_of_the_pipeline(tmp_path):
    pipeline().to_disk(tmp_path / "pipeline")
    ours = written(tmp_path, "spacy", MODEL="pipeline")
    theirs = spacy.load(tmp_path / "pipeline")
    for inputs in ({"text": numpy.array(TEXTS, object)}, ours.example()):
        found = ours.infer_with_tensors(inputs)
        check_signature(ours, inputs, found)
        assert found["labels"].tolist() == list(theirs.get_pipe("textcat").labels)
        for text, document, scores in zip(inputs["text"], found["document"], found["scores"]):
            expected = theirs(text)
            assert json.loads(document) == expected.to_json()
            # spaCy reads it again.
            assert [(e.text, e.label_) for e in Doc(theirs.vocab).from_json(json.loads(document)).ents] == [
                (e.text, e.label_) for e in expected.ents
            ]
            assert scores.tolist() == [expected.cats[label] for label in found["labels"]]
    assert ("Ada Lovelace", "PERSON") in [(e.text, e.label_) for e in theirs(TEXTS[0]).ents]


def test_no_texts_are_no_documents(tmp_path):
    pipeline().to_disk(tmp_path / "pipeline")
    ours = written(tmp_path, "spacy", MODEL="pipeline")
    found = ours.infer_with_tensors({"text": numpy.array([], object)})
    assert found["document"].shape == (0,) and found["scores"].shape == (0, 2)


def test_vectors_are_those_of_documents(tmp_path):
    nlp = spacy.blank("en")
    nlp.vocab.reset_vectors(width=3)
    nlp.vocab.set_vector("fox", numpy.array([1, 2, 3], "float32"))
    nlp.to_disk(tmp_path / "pipeline")
    ours = written(tmp_path, "spacy", MODEL="pipeline")
    inputs = {"text": numpy.array(["fox", "a fox"], object)}
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    assert sorted(found) == ["document", "vector"]
    expected = [spacy.load(tmp_path / "pipeline")(text).vector for text in inputs["text"]]
    numpy.testing.assert_array_equal(found["vector"], expected)
    assert found["vector"][0].tolist() == [1, 2, 3]
