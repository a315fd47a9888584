"""An index whose writer is killed at random moments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from graphdoc import DocumentEncoder

JOB = Path(__file__).parents[1] / "support" / "index_job.py"


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path, encoder: DocumentEncoder, kills: int) -> None:
    checkpoint = encoder.save_pretrained(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, str(JOB), str(checkpoint), str(tmp_path / "index"), "0", str(kills)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    print(result)
    assert result["kills"] == kills and result["acknowledged"] and result["cut_short"]
