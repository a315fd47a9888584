from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_loading import load, refusal
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from graphdoc.checkpoints.contents import CONFIG_FILE, UPDATES_FILE, WEIGHTS_FILE
from graphdoc.checkpoints.load import BACKBONE_HASH
from graphdoc.checkpoints.save import MOST_CLASSES, model_card, save_checkpoint
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.modeling import DocumentConfig
from graphdoc.modeling.document_model import weights_hash
from graphdoc.settings.run import LoraSettings
from graphdoc.training.optimizer import prepare_tuning, trained_updates

EncoderFactory = Callable[..., DocumentEncoder]
LABELS = ["rice & <b>koji</b>", "the\nsea", "a|b"]


def logits_of(encoder: DocumentEncoder, documents: list[Document]) -> torch.Tensor:
    segmented = [encoder.segment(document) for document in documents]
    logits = encoder.run(segmented).output.logits
    assert logits is not None
    return logits


@pytest.mark.parametrize("multi_label", [True, False])
def test_a_head_is_saved_and_loaded(
    tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path, multi_label: bool
) -> None:
    encoder = tiny_encoder("bert", labels=LABELS, multi_label=multi_label, classifier_dropout=0.3)
    again = load(encoder.save_pretrained(tmp_path))
    assert torch.equal(logits_of(again, structured), logits_of(encoder, structured))
    config = again.model.config
    assert config.labels == ["rice & <b>koji</b>", "the sea", "a|b"]
    assert (config.multi_label, config.classifier_dropout) == (multi_label, 0.3)
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["labels"] == config.labels


def test_a_head_that_was_added_is_saved_and_loaded(
    tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path
) -> None:
    encoder = load(tiny_encoder("bert").save_pretrained(tmp_path / "without"))
    encoder.model.add_head(LABELS)
    again = load(encoder.save_pretrained(tmp_path / "with"))
    assert torch.equal(logits_of(again, structured), logits_of(encoder, structured))


@pytest.mark.parametrize("tune", ["frozen", "lora"])
def test_a_head_is_among_the_updates(
    tiny_encoder: EncoderFactory, backbone_folder: Callable[[str], Path], tmp_path: Path, tune: str,
    structured: list[Document], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if tune == "lora":
        pytest.importorskip("peft", reason="needs the extra graphdoc[lora]")
    encoder = tiny_encoder("bert", readout="mean")
    prepare_tuning(encoder.model, tune, LoraSettings(rank=2))
    encoder.model.add_head(LABELS)
    with torch.no_grad():
        for weight in encoder.model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn_like(weight))
    encoder.model.train(False)
    expected = logits_of(encoder, structured)
    updates = trained_updates(encoder.model)
    assert {"head.linear.weight", "head.linear.bias"} < set(updates)
    save_checkpoint(encoder.model, encoder.tokenizer, tmp_path / "model", name="updates", updates=updates)
    assert not (tmp_path / "model" / WEIGHTS_FILE).exists()
    # The backbone is known by its folder's name alone.
    monkeypatch.chdir(backbone_folder("bert").parent)
    torch.testing.assert_close(logits_of(load(tmp_path / "model"), structured), expected, atol=1e-5, rtol=1e-5)
    file = tmp_path / "model" / UPDATES_FILE
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
    save_file({key: value for key, value in load_file(file).items() if key != "head.linear.bias"}, file, metadata)
    with pytest.raises(ModelError, match=r"head\.linear\.bias"):
        load(tmp_path / "model")


@pytest.mark.parametrize("tune", ["frozen", "lora"])
def test_another_backbone_is_refused(
    tiny_encoder: EncoderFactory, backbone_folder: Callable[[str], Path], tmp_path: Path, tune: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if tune == "lora":
        pytest.importorskip("peft", reason="needs the extra graphdoc[lora]")
    encoder = tiny_encoder("bert", readout="mean")
    prepare_tuning(encoder.model, tune, LoraSettings(rank=2))
    updates = trained_updates(encoder.model)
    folder = save_checkpoint(encoder.model, encoder.tokenizer, tmp_path / "model", name="updates", updates=updates)
    backbone = Path(shutil.copytree(backbone_folder("bert"), tmp_path / backbone_folder("bert").name))
    monkeypatch.chdir(tmp_path)
    load(folder)
    weights = load_file(backbone / WEIGHTS_FILE)
    next(iter(weights.values())).view(-1)[0] += 1e-6
    save_file(weights, backbone / WEIGHTS_FILE, {"format": "pt"})
    message = refusal(folder)
    with safe_open(folder / UPDATES_FILE, framework="pt") as file:
        trained_on = file.metadata()[BACKBONE_HASH]
    found = weights_hash(DocumentEncoder.from_backbone(backbone).model.passage_encoder.transformer.state_dict())
    assert trained_on != found
    for part in (UPDATES_FILE, backbone.name, trained_on, found):
        assert part in message
    # Nor is a file taken that does not say what it was trained on.
    save_file(updates, folder / UPDATES_FILE, {"format": "pt"})
    assert UPDATES_FILE in refusal(folder)


def test_labels_that_do_not_fit_the_weights(tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
    encoder = tiny_encoder("bert", labels=LABELS)
    encoder.save_pretrained(tmp_path / "with")
    for labels in (["a", "b"], None):
        with pytest.raises(ModelError, match=r"head\.linear\.bias, head\.linear\.weight"):
            load(tmp_path / "with", labels=labels)
    tiny_encoder("bert").save_pretrained(tmp_path / "without")
    with pytest.raises(ModelError, match=r"head\.linear\.bias, head\.linear\.weight"):
        load(tmp_path / "without", labels=["a", "b"])


@pytest.mark.parametrize("labels", ["rice", ["a", "a "], [["a"], "b"], ["a"]])
def test_labels_in_a_file_that_cannot_be(tiny_encoder: EncoderFactory, tmp_path: Path, labels: object) -> None:
    tiny_encoder("bert", labels=LABELS).save_pretrained(tmp_path)
    values = json.loads((tmp_path / CONFIG_FILE).read_text())
    (tmp_path / CONFIG_FILE).write_text(json.dumps({**values, "labels": labels}))
    with pytest.raises(ModelError, match="labels"):
        load(tmp_path)


def test_the_card_names_the_classes() -> None:
    config = DocumentConfig(encoder_config={"model_type": "bert"}, labels=LABELS)
    card = model_card(config, "topics")
    assert "pipeline_tag: text-classification" in card
    assert r"| classes | one of 3: rice \& \<b\>koji\</b\>, the sea, a\|b |" in card
    assert "encoder.predict([" in card
    many = model_card(DocumentConfig(labels=[f"class{n}" for n in range(MOST_CLASSES + 5)], multi_label=True), "many")
    assert f"any number of {MOST_CLASSES + 5}: class0, class1," in many
    assert f"class{MOST_CLASSES - 1} and 5 more |" in many
    plain = model_card(DocumentConfig(), "plain")
    assert "classes" not in plain
    assert "| vector | 512 numbers |\n\n```python" in plain
