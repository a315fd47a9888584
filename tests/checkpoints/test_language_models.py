from __future__ import annotations

import logging
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel

from graphdoc.checkpoints.backbones import load_language_model_head
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.modeling.heads import NewHead, PretrainedHead

EncoderConfigFactory = Callable[..., PreTrainedConfig]


def language_model(config: PreTrainedConfig, folder: Path, without: tuple[str, ...] = ()) -> PreTrainedModel:
    """Saves a random language model as the hub would give it, and gives it; some weights are not in the file."""
    # Building a model changes its configuration.
    model: PreTrainedModel = AutoModelForMaskedLM.from_config(deepcopy(config)).eval()
    for name, weight in model.named_parameters():
        if "bias" in name:
            torch.nn.init.normal_(weight)
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
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
    head = load_language_model_head(model.passage_encoder.transformer, str(tmp_path))
    assert isinstance(head, PretrainedHead)

    ids = torch.randint(4, 100, (3, 9))
    places = torch.tensor([0, 0, 2]), torch.tensor([1, 5, 7])
    with torch.no_grad():
        tokens = model.passage_encoder.tokens(ids, torch.ones_like(ids))
        found = head(tokens[places])
        expected = whole(ids).logits[places]
        empty = head(tokens[:0, 0])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found.std() > 0.01
    assert empty.shape == (0, 100)


def test_the_last_layer_is_the_table_of_embeddings(
    tiny_encoder_config: EncoderConfigFactory, encoder_name: str, tmp_path: Path
) -> None:
    config = tiny_encoder_config(encoder_name)
    model = model_on(config, language_model(config, tmp_path))
    embeddings = model.passage_encoder.transformer.get_input_embeddings().weight
    for backbone in (str(tmp_path), None):
        head = load_language_model_head(model.passage_encoder.transformer, backbone)
        assert any(weight is embeddings for weight in head.parameters())
        model.training_parts["language_model"] = head
        names = {name for name, _ in model.named_parameters() if name.startswith("training_parts.")}
        own = sum(weight.numel() for name, weight in model.named_parameters() if name in names)
        # Two square layers and a bias; no second table.
        assert 24 * 24 < own < 2 * 24 * 24 + 100


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
    backbone: str | None = str(tmp_path)
    match case:
        case "encoder alone":
            language_model(config, tmp_path, ("lm_head",))
        case "nothing known":
            backbone = None
        case "nowhere":
            backbone = str(tmp_path / "nowhere")
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
