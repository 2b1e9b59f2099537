"""Tiny networks of transformers, saved in a folder, against calling them by hand."""

from __future__ import annotations

import pytest
import torch

from fedsift.data.encoders import load_encoder
from fedsift.errors import InputError

transformers = pytest.importorskip("transformers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "no", "pain", "fever", "since", "days"]
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


@pytest.fixture
def bert(tmp_path):
    """Save a BERT of a few hundred weights with its tokenizer."""
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    tokenizer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=12, **SIZES)
    torch.manual_seed(0)
    model = transformers.BertModel(config)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path, model.eval(), tokenizer


@pytest.fixture
def vit(tmp_path):
    """Save a vision transformer with its image processor."""
    config = transformers.ViTConfig(image_size=16, patch_size=8, **SIZES)
    torch.manual_seed(0)
    model = transformers.ViTModel(config)
    model.save_pretrained(tmp_path)
    processor = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
    processor.save_pretrained(tmp_path)
    return tmp_path, model.eval()


def test_features_of_a_text_are_the_mean_over_its_own_tokens(bert):
    folder, model, tokenizer = bert
    texts = ["no pain", "fever since days", ""]
    result = load_encoder(f"transformers:{folder}", "table").encode(texts)
    for text, row in zip(texts, result, strict=True):  # one at a time: no padding at all
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        torch.testing.assert_close(row, states.mean(0), rtol=1e-4, atol=1e-5)


def test_a_text_is_cut_where_the_network_ends(bert):
    encoder = load_encoder(f"transformers:{bert[0]}", "table")
    assert encoder.longest == 12
    assert encoder.encode(["pain " * 50]).shape == (1, 8)


def test_features_of_a_picture_are_the_poolers(vit):
    folder, model = vit
    pictures = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    pictures = (255 * pictures).round() / 255
    result = load_encoder(f"transformers:{folder}", "image").encode(pictures)
    with torch.no_grad():
        by_hand = model((pictures.expand(-1, 3, -1, -1) - 0.5) / 0.5).pooler_output
    torch.testing.assert_close(result, by_hand, rtol=1e-4, atol=1e-5)


def test_the_fingerprint_is_of_weights_and_vocabulary(bert, tmp_path):
    folder, model, tokenizer = bert
    first = load_encoder(f"transformers:{folder}", "table").fingerprint
    assert load_encoder(f"transformers:{folder}", "table").fingerprint == first
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[3, 3] += 1e-3
    model.save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    assert load_encoder(f"transformers:{tmp_path / 'other'}", "table").fingerprint != first


def test_weights_that_are_a_pickle_are_refused(bert):
    folder, model, _ = bert
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be loaded from safetensors"):
        load_encoder(f"transformers:{folder}", "table")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*nowhere for encoder"):
        load_encoder(f"transformers:{tmp_path / 'nowhere'}", "table")


def test_a_folder_without_a_network_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be loaded from safetensors"):
        load_encoder(f"transformers:{tmp_path}", "table")
