from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from forked import run

from graphdoc.encoder import DocumentEncoder

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
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    result = run(tmp_path / "program.py", tmp_path / "model", OMP_NUM_THREADS="2")
    assert result.stdout.split() == ["1", "True", "2"]
