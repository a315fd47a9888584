"""An index whose writer is killed at random moments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked import PATIENCE, run

from graphdoc import DocumentEncoder

JOB = Path(__file__).parents[1] / "support" / "index_job.py"


@pytest.mark.parametrize("kills", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_lose_nothing_that_was_acknowledged(
    place: str, tmp_path: Path, encoder: DocumentEncoder, kills: int
) -> None:
    checkpoint = encoder.save_pretrained(tmp_path / "model")
    # On a busy machine a kill and its check take half a minute.
    done = run(JOB, checkpoint, place, 0, kills, patience=PATIENCE + 60 * kills)
    result = json.loads(done.stdout.splitlines()[-1])
    print(result)
    assert result["kills"] >= kills and result["acknowledged"] and result["cut_short"]
