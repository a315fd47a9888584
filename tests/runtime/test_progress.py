"""Bars of long work: one long document is not silent."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest
from tqdm.auto import tqdm

from graphdoc.runtime import progress
from graphdoc.runtime.progress import Parts, progress_bar


def test_parts_of_a_long_document_are_shown() -> None:
    shown = io.StringIO()
    with tqdm(total=1, file=shown, mininterval=0) as bar:
        bar.last_print_t = 0
        parts = Parts(bar, 1, 3_000, "sentences")
        parts(1_200)
        assert "1,200 of 3,000 sentences" in shown.getvalue() and bar.n == 0
        parts(1_800)
    assert bar.n == 1 and "of 3,000" not in shown.getvalue().rpartition("\r")[2]


def test_bars_advance_by_whole_documents() -> None:
    with tqdm(total=4, file=io.StringIO()) as bar:
        parts = Parts(bar, 4, 10, "passages")
        for done, whole in ((3, 1), (4, 2), (1, 3), (2, 4)):
            parts(done)
            assert bar.n == whole
    Parts(None, 1, 1, "passages")(1)
    hidden = tqdm(total=1, disable=True)
    Parts(hidden, 1, 2, "passages")(1)


class TestWithoutATerminal:
    @pytest.fixture
    def lines(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
        """What was written since the last look where there is no terminal; a line is due at every change."""
        monkeypatch.setattr(progress, "SECONDS", 0.0)
        return lambda: capsys.readouterr().err.splitlines()

    def test_a_line_says_how_far_the_work_is(self, lines: Callable[[], list[str]]) -> None:
        with progress_bar(None, 2_000, "Indexing") as bar:
            bar.set_postfix_str("loss 0.5", refresh=False)
            bar.update(1_500)
            bar.update(500)
        found = lines()
        assert any(line.startswith("Indexing: 1,500 of 2,000 documents in 00:0") for line in found)
        assert any(" left, loss 0.5" in line for line in found)
        assert found[-1].startswith("Indexing: 2,000 of 2,000 documents in") and " left" not in found[-1]
        assert not any("\r" in line or "\x1b" in line for line in found)

    def test_what_is_of_no_known_length(self, lines: Callable[[], list[str]]) -> None:
        with progress_bar(None, None, "Reading") as bar:
            bar.update(1)
        assert lines()[-1].startswith("Reading: 1 document in")

    def test_short_work_is_silent(self, lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "SECONDS", 60.0)
        with progress_bar(None, 3) as bar:
            bar.set_postfix_str("almost")
            bar.update(2)
            bar.write("said beside it", file=sys.stderr)
            bar.update(1)
        assert lines() == ["said beside it"]

    def test_what_is_done_or_hidden_is_silent(self, lines: Callable[[], list[str]]) -> None:
        for bar in (progress_bar(False, 3), progress_bar(None, 3, done=3)):
            with bar:
                assert bar.disable
                bar.update(1)
        assert lines() == []

    def test_the_parts_of_one_document(self, lines: Callable[[], list[str]]) -> None:
        with progress_bar(None, 1) as bar:
            Parts(bar, 1, 3_000, "sentences")(1_200)
            last = lines()[-1]
            assert "0 of 1 document in" in last and "1,200 of 3,000 sentences" in last
