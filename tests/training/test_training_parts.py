"""What a run trains along with the model, and leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.modeling.heads import NewHead
from graphdoc.settings.run import TrainingSettings
from graphdoc.training.checkpoint import PARTS_FILE, TRAINED_FILE, TRAINING_FOLDER, RunCheckpoints, TrainState
from graphdoc.training.optimizer import make_optimizer, make_schedule, prepare_tuning, trained_weights

KEY = "training_parts.language_model.dense.weight"


@pytest.mark.parametrize("tune", ["full", "lora", "lora updates"])
def test_they_are_in_checkpoints_and_not_in_the_model(
    tiny_encoder: Callable[..., DocumentEncoder],
    backbone_folder: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tune: str,
) -> None:
    if "lora" in tune:
        pytest.importorskip("peft")

    def start() -> tuple[DocumentEncoder, RunCheckpoints]:
        encoder = tiny_encoder(projection_size=None, graph_layers=0, readout="mean")
        model = encoder.model
        model.training_parts["language_model"] = NewHead(model.passage_encoder.transformer)
        prepare_tuning(model, tune.partition(" ")[0])  # type: ignore[arg-type]
        return encoder, RunCheckpoints(
            tmp_path,
            model,
            encoder.tokenizer,
            name="tiny",
            only_updates=tune == "lora updates",
        )

    encoder, checkpoints = start()
    settings = TrainingSettings(batch_size=2)
    optimizer = make_optimizer(encoder.model, settings)
    schedule = make_schedule(optimizer, settings, 10)
    for weight in trained_weights(encoder.model).values():
        weight.grad = torch.randn_like(weight)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    checkpoints.save(TrainState(global_step=1), optimizer, schedule, torch.amp.GradScaler("cpu", enabled=False))
    folder = checkpoints.at_step(1)

    (parts,) = (load_file(path) for path in folder.rglob(PARTS_FILE))
    assert KEY in parts and all(name.startswith("training_parts.") for name in parts)
    # A table of embeddings that both share is stored once, and a model that is trained whole is, too.
    assert "training_parts.language_model.decoder.weight" not in parts
    assert (folder / TRAINING_FOLDER / TRAINED_FILE).exists() == (tune != "full")
    (model_file,) = folder.glob("*.safetensors")
    assert not any("training_parts" in name for name in load_file(model_file))
    monkeypatch.chdir(backbone_folder("roberta").parent)
    found: Any = DocumentEncoder.from_pretrained(folder, device="cpu").model
    assert len(found.training_parts) == 0

    other, reader = start()
    expected = trained_weights(encoder.model)
    assert not torch.equal(trained_weights(other.model)[KEY], expected[KEY])
    reader.load_weights(folder)
    for name, weight in trained_weights(other.model).items():
        assert torch.equal(weight, expected[name]), name

    (folder / TRAINING_FOLDER / PARTS_FILE).unlink()
    with pytest.raises(ModelError, match=PARTS_FILE):
        reader.load_weights(folder)
