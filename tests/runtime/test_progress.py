"""Bars of long work: one long document is not silent."""

from __future__ import annotations

import io
import sys

import pytest
from tqdm.auto import tqdm

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


@pytest.mark.parametrize(
    ("show", "done", "is_terminal"), [(False, 0, True), (None, 3, True), (True, 3, True), (None, 0, False)]
)
def test_what_is_done_or_hidden_is_silent(
    show: bool | None, done: int, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with progress_bar(show, 3, done=done) as bar:
        assert bar.disable
    assert not progress_bar(True, 3).disable
