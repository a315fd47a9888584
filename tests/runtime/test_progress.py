"""Bars of long work: one long document is not silent."""

from __future__ import annotations

import io

from tqdm.auto import tqdm

from graphdoc.runtime.progress import Parts


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
