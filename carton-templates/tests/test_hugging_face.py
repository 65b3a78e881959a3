"""The templates of Hugging Face beside the pipelines and models of transformers, on small models with random weights."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import json

import numpy
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from written import check_signature, written

WORDS = "[PAD] [UNK] [CLS] [SEP] the quick brown fox jumps over lazy dog a good movie what i have never seen ada lovelace lived in london . !"
TEXTS = ["The quick brown fox", "What a good movie!", "naïve 😀 movie."]
NET = {"vocab_size": 40, "dim": 8, "hidden_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 24}


@pytest.fixture(autouse=True)
def seed():
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)


def tokenizer(folder, **options):
    made = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS.split())}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=["input_ids", "attention_mask"], **{**names, **options})
    made.save_pretrained(folder)
    return made


def texts_of(texts):
    array = numpy.empty(len(texts), object)
    array[:] = texts
    return array


def labels(names):
    return {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}


@pytest.mark.parametrize("problem", [None, "single_label_classification", "multi_label_classification", "regression"])
def test_text_classification_is_the_pipeline(tmp_path, problem):
    names = ["bad", "fair", "good"] if problem != "regression" else ["score"]
    config = transformers.DistilBertConfig(**NET, problem_type=problem, **labels(names))
    transformers.DistilBertForSequenceClassification(config).save_pretrained(tmp_path / "model")
    tokens = tokenizer(tmp_path / "model")
    ours = written(tmp_path, "text_classification", MODEL="model")
    check_signature(ours, ours.example(), ours.infer_with_tensors(ours.example()))
    pipeline = transformers.pipeline("text-classification", model=str(tmp_path / "model"), device="cpu")
    for text in TEXTS:
        found = ours.infer_with_tensors({"text": texts_of([text])})
        expected = {one["label"]: one["score"] for one in pipeline(text, top_k=None)}
        assert dict(zip(found["labels"], found["scores"][0].tolist())) == expected
        if problem in (None, "single_label_classification"):
            assert found["label"].tolist() == [pipeline(text)[0]["label"]]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    with torch.inference_mode():
        expected = model(**tokens(TEXTS, padding=True, return_tensors="pt")).logits
    found = ours.infer_with_tensors({"text": texts_of(TEXTS)})
    numpy.testing.assert_array_equal(found["logits"], expected.numpy())
    assert len(numpy.unique(found["logits"])) == found["logits"].size
    assert ours.infer_with_tensors({"text": texts_of([])})["logits"].shape == (0, len(names))


def test_texts_are_not_cut_off(tmp_path):
    transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig(**NET)).save_pretrained(tmp_path / "model")
    tokenizer(tmp_path / "model")
    ours = written(tmp_path, "text_classification", MODEL="model")
    assert ours.infer_with_tensors({"text": texts_of(["fox " * 22])})["logits"].shape == (1, 2)
    with pytest.raises(ValueError, match="text 1 has 25 tokens, and the model takes 24"):
        ours.infer_with_tensors({"text": texts_of(["fox", "fox " * 23])})


def test_a_decoder_without_padding_gets_texts_one_by_one(tmp_path):
    config = transformers.GPT2Config(vocab_size=40, n_embd=8, n_layer=1, n_head=2, n_positions=32, bos_token_id=2, eos_token_id=3, num_labels=3)
    transformers.GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "model")
    tokenizer(tmp_path / "model", pad_token=None)
    ours = written(tmp_path, "text_classification", MODEL="model")
    found = ours.infer_with_tensors({"text": texts_of(TEXTS)})
    pipeline = transformers.pipeline("text-classification", model=str(tmp_path / "model"), device="cpu")
    for text, scores in zip(TEXTS, found["scores"].tolist()):
        assert dict(zip(found["labels"], scores)) == {one["label"]: one["score"] for one in pipeline(text, top_k=None)}


def test_weights_of_half_precision_are_computed_in_float32(tmp_path):
    model = transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig(**NET)).half()
    model.save_pretrained(tmp_path / "model")
    tokens = tokenizer(tmp_path / "model")
    ours = written(tmp_path, "text_classification", MODEL="model")
    with torch.inference_mode():
        expected = model.float().eval()(**tokens(TEXTS, padding=True, return_tensors="pt")).logits
    numpy.testing.assert_array_equal(ours.infer_with_tensors({"text": texts_of(TEXTS)})["logits"], expected.numpy())


def test_token_classification_is_the_pipeline(tmp_path):
    config = transformers.DistilBertConfig(**NET, **labels(["O", "B-PER", "B-LOC"]))
    transformers.DistilBertForTokenClassification(config).save_pretrained(tmp_path / "model")
    tokens = tokenizer(tmp_path / "model")
    ours = written(tmp_path, "token_classification", MODEL="model")
    check_signature(ours, ours.example(), ours.infer_with_tensors(ours.example()))
    pipeline = transformers.pipeline("token-classification", model=str(tmp_path / "model"), ignore_labels=[], device="cpu")
    for text in TEXTS:
        found = ours.infer_with_tensors({"text": texts_of([text])})
        kept = found["is_token"][0]
        expected = pipeline(text)
        assert found["label"][0][kept].tolist() == [one["entity"] for one in expected]
        assert found["offsets"][0][kept].tolist() == [[one["start"], one["end"]] for one in expected]
        assert set(found["label"][0][~kept]) == {""}
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "model").eval()
    with torch.inference_mode():
        expected = model(**tokens(TEXTS, padding=True, return_tensors="pt")).logits.numpy()
    found = ours.infer_with_tensors({"text": texts_of(TEXTS)})
    numpy.testing.assert_array_equal(found["logits"], expected)
    assert found["is_token"].sum(axis=1).tolist() == [4, 5, 4]


def test_image_classification_is_the_pipeline(tmp_path):
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4, **labels(["cat", "dog", "owl"])
    )
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "model")
    transformers.ViTImageProcessor(size={"height": 8, "width": 8}).save_pretrained(tmp_path / "model")
    ours = written(tmp_path, "image_classification", MODEL="model")
    inputs = ours.example()
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    pipeline = transformers.pipeline("image-classification", model=str(tmp_path / "model"), device="cpu")
    three_rows = numpy.arange(3 * 9 * 3, dtype="uint8").reshape(1, 3, 9, 3)
    for pixels in [*inputs["pixels"][:, None], three_rows]:
        found = ours.infer_with_tensors({"pixels": pixels})
        expected = {one["label"]: one["score"] for one in pipeline(Image.fromarray(pixels[0]))}
        assert dict(zip(found["labels"], found["scores"][0].tolist())) == expected


def test_speech_recognition_by_ctc_is_the_model(tmp_path):
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", "A", "B", "C"]
    (tmp_path / "vocab.json").write_text(json.dumps({letter: index for index, letter in enumerate(letters)}))
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=8000)
    processor = transformers.Wav2Vec2Processor(extractor, transformers.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json")))
    processor.save_pretrained(tmp_path / "model")
    config = transformers.Wav2Vec2Config(
        vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, conv_dim=(8, 8), conv_stride=(5, 2),
        conv_kernel=(10, 3), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, num_feat_extract_layers=2,
    )
    model = transformers.Wav2Vec2ForCTC(config).eval()
    model.save_pretrained(tmp_path / "model")
    ours = written(tmp_path, "speech_ctc", MODEL="model")
    inputs = ours.example()
    inputs["samples"].flags.writeable = False
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    assert "8000 samples a second" in ours.signature()["inputs"][0]["description"] and len(inputs["samples"]) == 12000
    with torch.inference_mode():
        expected = model(**processor(inputs["samples"].copy(), sampling_rate=8000, return_tensors="pt")).logits
    numpy.testing.assert_array_equal(found["logits"], expected[0].numpy())
    assert found["text"][()] == processor.batch_decode(expected.argmax(-1))[0] != ""


def test_whisper_is_the_model(tmp_path):
    # The tokens are the 256 bytes.
    vocabulary = {"<|endoftext|>": 0, "<|start|>": 1}
    vocabulary.update({byte: index + 2 for index, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))})
    made = Tokenizer(models.BPE(vocabulary, []))
    made.decoder = decoders.ByteLevel()
    names = {"eos_token": "<|endoftext|>", "bos_token": "<|start|>", "unk_token": "<|endoftext|>"}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)
    made.save_pretrained(tmp_path / "model")
    # Older versions read these.
    (tmp_path / "model" / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "model" / "merges.txt").write_text("#version: 0.2\n")
    extractor = transformers.WhisperFeatureExtractor(feature_size=80)
    extractor.save_pretrained(tmp_path / "model")
    config = transformers.WhisperConfig(
        vocab_size=258, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16,
        decoder_ffn_dim=16, max_target_positions=16, decoder_start_token_id=1, eos_token_id=0, bos_token_id=1, pad_token_id=0,
        suppress_tokens=None, begin_suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.generation_config.max_length = 12
    model.save_pretrained(tmp_path / "model")
    files = tmp_path / "model" / "tokenizer_config.json"
    settings = json.loads(files.read_text())
    files.write_text(json.dumps({**settings, "processor_class": "WhisperProcessor", "tokenizer_class": "WhisperTokenizer"}))
    ours = written(tmp_path, "speech_whisper", MODEL="model")
    inputs = ours.example()
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    prepared = extractor(inputs["samples"], sampling_rate=16000, return_tensors="pt", return_attention_mask=True)
    with torch.inference_mode():
        expected = model.generate(prepared.input_features, attention_mask=prepared.attention_mask)
    assert found["tokens"].tolist() == expected[0].tolist() and len(found["tokens"]) > 1
    assert found["text"][()] == made.decode(expected[0], skip_special_tokens=True)
    with pytest.raises(ValueError, match="480001 samples are more than the 480000"):
        ours.infer_with_tensors({"samples": numpy.zeros(480001, "float32")})


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_embeddings_are_those_of_sentence_transformers(tmp_path, pooling):
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="this environment has no sentence-transformers")
    config = transformers.DistilBertConfig(**NET)
    transformers.DistilBertModel(config).save_pretrained(tmp_path / "net")
    tokens = tokenizer(tmp_path / "net")
    try:
        from sentence_transformers.base.modules import Dense, Normalize, Transformer
        from sentence_transformers.sentence_transformer.modules import Pooling
    except ImportError:
        from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
    net = Transformer(str(tmp_path / "net"), max_seq_length=20)
    modules = [net, Pooling(8, pooling_mode=pooling), Dense(8, 6), Normalize()]
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(tmp_path / "model"))
    ours = written(tmp_path, "sentence_embedding", MODEL="model")
    inputs = ours.example()
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    for texts in (inputs["text"].tolist(), ["fox " * 50, "dog"]):
        numpy.testing.assert_array_equal(ours.infer_with_tensors({"text": texts_of(texts)})["embedding"], theirs.encode(texts))
    assert ours.infer_with_tensors({"text": texts_of([])})["embedding"].shape == (0, 6)
    # What pooling means, by transformers alone.
    model = transformers.AutoModel.from_pretrained(tmp_path / "net").eval()
    encoded = tokens(["the quick fox", "dog"], padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**encoded).last_hidden_state
        mask = encoded["attention_mask"][:, :, None]
        pooled = {"mean": (hidden * mask).sum(1) / mask.sum(1), "cls": hidden[:, 0], "max": hidden.masked_fill(mask == 0, -1e9).max(1).values}[pooling]
        dense = ours.model[2]
        expected = torch.nn.functional.normalize(dense.activation_function(dense.linear(pooled.to(dense.linear.weight.device))))
    found = ours.infer_with_tensors({"text": texts_of(["the quick fox", "dog"])})["embedding"]
    numpy.testing.assert_allclose(found, expected.cpu().numpy(), atol=1e-6)
