from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError

CODE = "from pathlib import Path\nPath({marker!r}).write_text('ran')\n"


@pytest.fixture
def backbone(backbone_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(backbone_folder("roberta"), tmp_path / "backbone"))


@pytest.mark.parametrize("part", ["config", "model", "tokenizer"])
def test_code_of_a_folder_is_never_run_nor_asked_about(backbone: Path, tmp_path: Path, part: str) -> None:
    marker = tmp_path / "marker"
    (backbone / "own.py").write_text(CODE.format(marker=str(marker)))
    name = "tokenizer_config.json" if part == "tokenizer" else "config.json"
    values = json.loads((backbone / name).read_text())
    auto_map = {
        "config": {"AutoConfig": "own.Config"},
        "model": {"AutoModel": "own.Model"},
        "tokenizer": {"AutoTokenizer": ["own.Tokenizer", None]},
    }[part]
    (backbone / name).write_text(json.dumps({**values, "auto_map": auto_map}))
    program = (
        "from graphdoc import DocumentEncoder\n"
        "from graphdoc.errors import ModelError\n"
        f"try:\n    DocumentEncoder.from_backbone({str(backbone)!r}, device='cpu')\n"
        "except ModelError:\n    pass\n"
    )
    run = subprocess.run([sys.executable, "-c", program], input="y\n" * 5, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not marker.exists()
    assert "[y/N]" not in run.stdout + run.stderr


def test_pickled_weights_are_refused(backbone: Path) -> None:
    torch.save(load_file(backbone / "model.safetensors"), backbone / "pytorch_model.bin")
    (backbone / "model.safetensors").unlink()
    with pytest.raises(ModelError) as caught:
        DocumentEncoder.from_backbone(backbone, device="cpu")
    assert "safetensors" in str(caught.value)
    assert str(backbone) in str(caught.value)
