from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graphdoc.encoder import DocumentEncoder

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys, torch
torch.set_num_threads(2)
from graphdoc import DocumentEncoder

encoder = DocumentEncoder.from_pretrained(sys.argv[1], device="cpu")
texts = ["Rice is polished, soaked and steamed. The grains stay whole. " * 40] * 8
expected = encoder.encode(texts)
child = os.fork()
if not child:
    difference = abs(encoder.encode(texts) - expected).max()
    print(torch.get_num_threads(), difference < 1e-5, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(torch.get_num_threads())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_fork_encodes_after_its_parent_has_encoded_with_threads(
    tiny_encoder: Callable[..., DocumentEncoder], tmp_path: Path
) -> None:
    tiny_encoder("bert").save_pretrained(tmp_path / "model")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "model"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["1", "True", "2"]
