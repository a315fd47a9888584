from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typed import Backbones, Encoders, Folders, Patch


@pytest.fixture(scope="module")
def saved(tiny_encoder: Encoders, tmp_path_factory: Folders) -> Path:
    return tiny_encoder("bert", readout="attention").save_pretrained(tmp_path_factory.mktemp("saved") / "checkpoint")


@pytest.fixture
def checkpoint(saved: Path, tmp_path: Path) -> Path:
    """A copy of a checkpoint, to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "checkpoint"))


@pytest.fixture
def backbone(backbone_folder: Backbones, tmp_path: Path) -> Path:
    """A copy of a backbone, to be broken."""
    return Path(shutil.copytree(backbone_folder("roberta"), tmp_path / "backbone"))


@pytest.fixture(autouse=True)
def _offline(monkeypatch: Patch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
