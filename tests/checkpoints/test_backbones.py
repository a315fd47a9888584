from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForMaskedLM,
    GPT2Config,
    GPT2Model,
    PreTrainedConfig,
    PreTrainedModel,
    RobertaForMaskedLM,
    T5Config,
)

from graphdoc.checkpoints.backbones import load_language_model_head
from graphdoc.checkpoints.contents import CONFIG_FILE, WEIGHTS_FILE, token_limit
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.modeling.heads import NewHead, PretrainedHead

EncoderFactory = Callable[..., DocumentEncoder]
EncoderConfigFactory = Callable[..., PreTrainedConfig]


def test_weights_are_those_of_the_backbone(backbone: Path) -> None:
    pretrained = load_file(backbone / WEIGHTS_FILE)
    encoder = DocumentEncoder.from_backbone(backbone, device="cpu")
    weights = encoder.model.passage_encoder.transformer.state_dict()
    assert all(torch.equal(value, pretrained[key]) for key, value in weights.items())
    # A configuration may ask for plain tuples.
    values = json.loads((backbone / CONFIG_FILE).read_text())
    (backbone / CONFIG_FILE).write_text(json.dumps({**values, "return_dict": False}))
    again = DocumentEncoder.from_backbone(backbone, device="cpu")
    assert (again.encode("Rice is steamed.") == encoder.encode("Rice is steamed.")).all()


def test_a_language_model_loses_its_head(tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
    encoder = tiny_encoder("roberta")
    whole = RobertaForMaskedLM(encoder.model.config.encoder_config)
    whole.save_pretrained(tmp_path)
    encoder.tokenizer.save_pretrained(tmp_path)
    loaded = DocumentEncoder.from_backbone(tmp_path, device="cpu")
    weights = loaded.model.passage_encoder.transformer.state_dict()
    assert all(torch.equal(value, whole.roberta.state_dict()[key]) for key, value in weights.items())


def test_the_passage_limit_is_the_backbones(encoder_name: str, tiny_encoder: EncoderFactory) -> None:
    encoder = tiny_encoder(encoder_name)
    limit = token_limit(encoder.model.config.encoder_config)
    assert limit == (78 if "roberta" in encoder_name else 80)
    assert encoder.segmenter.config.max_tokens == limit
    vectors = encoder.encode("word-" * 400, level="passage")
    assert len(vectors) > 1
    assert np.isfinite(vectors).all()


def test_what_is_no_backbone(saved: Path, tmp_path: Path) -> None:
    GPT2Model(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=20)).save_pretrained(tmp_path / "gpt2")
    T5Config().save_pretrained(tmp_path / "t5")
    for folder, named in ((saved, "from_pretrained"), (tmp_path / "gpt2", "gpt2"), (tmp_path / "t5", "t5")):
        with pytest.raises(ModelError, match=named):
            DocumentEncoder.from_backbone(folder)


@pytest.mark.parametrize("broken", ["tokenizer.json", WEIGHTS_FILE, CONFIG_FILE, "cut short", "a layer"])
def test_backbones_that_are_not_whole(backbone: Path, broken: str) -> None:
    named = str(backbone)
    if broken == "cut short":
        os.truncate(backbone / WEIGHTS_FILE, 500)
    elif broken == "a layer":
        weights = load_file(backbone / WEIGHTS_FILE)
        named = "encoder.layer.1."
        save_file({key: value for key, value in weights.items() if named not in key}, backbone / WEIGHTS_FILE)
    else:
        (backbone / broken).unlink()
    with pytest.raises(ModelError) as caught:
        DocumentEncoder.from_backbone(backbone)
    assert named in str(caught.value) and "\n" not in str(caught.value)


def language_model(config: PreTrainedConfig, folder: Path, without: tuple[str, ...] = ()) -> PreTrainedModel:
    """Saves a random language model as the hub would give it, and gives it; some weights are not in the file."""
    # Building a model changes its configuration.
    model: PreTrainedModel = AutoModelForMaskedLM.from_config(deepcopy(config)).eval()
    for name, weight in model.named_parameters():
        if "bias" in name:
            torch.nn.init.normal_(weight)
    model.save_pretrained(folder)
    path = folder / WEIGHTS_FILE
    kept = {name: weight for name, weight in load_file(path).items() if not name.startswith(without)}
    save_file(kept, path, {"format": "pt"})
    return model


def model_on(config: PreTrainedConfig, trained: PreTrainedModel) -> DocumentModel:
    model = DocumentModel(DocumentConfig(encoder_config=config, projection_size=8)).eval()
    model.passage_encoder.transformer.load_state_dict(trained.base_model.state_dict())
    return model


def test_logits_at_masked_places_are_those_of_the_language_model(
    tiny_encoder_config: EncoderConfigFactory, encoder_name: str, tmp_path: Path
) -> None:
    config = tiny_encoder_config(encoder_name)
    whole = language_model(config, tmp_path)
    model = model_on(config, whole)
    transformer = model.passage_encoder.transformer
    ids = torch.randint(4, 100, (3, 9))
    places = torch.tensor([0, 0, 2]), torch.tensor([1, 5, 7])
    embeddings = transformer.get_input_embeddings().weight
    for backbone in (None, str(tmp_path)):
        head = load_language_model_head(transformer, backbone)
        assert any(weight is embeddings for weight in head.parameters())
        model.training_parts["language_model"] = head
        names = {name for name, _ in model.named_parameters() if name.startswith("training_parts.")}
        own = sum(weight.numel() for name, weight in model.named_parameters() if name in names)
        # Two square layers and a bias; no second table.
        assert 24 * 24 < own < 2 * 24 * 24 + 100
    assert isinstance(head, PretrainedHead)
    with torch.no_grad():
        tokens = model.passage_encoder.tokens(ids, torch.ones_like(ids))
        logits, expected = head(tokens[places]), whole(ids).logits[places]
        assert head(tokens[:0, 0]).shape == (0, 100)
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
    assert logits.std() > 0.01


def test_a_table_of_its_own_is_kept(tiny_encoder_config: EncoderConfigFactory, tmp_path: Path) -> None:
    config = tiny_encoder_config("roberta", tie_word_embeddings=False)
    whole = language_model(config, tmp_path)
    head = load_language_model_head(model_on(config, whole).passage_encoder.transformer, str(tmp_path))
    assert isinstance(head, PretrainedHead)
    tokens = torch.randn(2, 24)
    torch.testing.assert_close(head(tokens), whole.lm_head(tokens))


@pytest.mark.parametrize("case", ["encoder alone", "nothing known", "nowhere", "another model", "another width"])
def test_a_new_head_comes_with_a_warning(
    tiny_encoder_config: EncoderConfigFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    config = tiny_encoder_config("roberta")
    model = DocumentModel(DocumentConfig(encoder_config=config, projection_size=8))
    backbone = {"nothing known": None, "nowhere": str(tmp_path / "nowhere")}.get(case, str(tmp_path))
    match case:
        case "encoder alone":
            language_model(config, tmp_path, ("lm_head",))
        case "another model":
            language_model(tiny_encoder_config("bert"), tmp_path)
        case "another width":
            language_model(tiny_encoder_config("roberta", hidden_size=16), tmp_path)
    with caplog.at_level(logging.WARNING, "graphdoc"):
        head = load_language_model_head(model.passage_encoder.transformer, backbone)

    assert isinstance(head, NewHead)
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    logits = head(torch.randn(5, 24))
    assert logits.shape == (5, 100)
    logits.sum().backward()
    weight: Any = model.passage_encoder.transformer.get_input_embeddings().weight
    assert float(weight.grad.abs().max()) > 0
