from __future__ import annotations

from collections.abc import Callable

import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.inference.segmenting import Workers, segment_in_order
from graphdoc.segmentation.spans import Coverage

CUT = Coverage(100, 60, 25, 15, 3, 2, {"passage limit": 30, "no tokens": 10}, 1, 2, 1, 1)
WHOLE = Coverage(50, 50, 12, 12, 1, 1, documents=1)


def test_coverages_add_up() -> None:
    total = CUT + WHOLE + CUT
    assert total == Coverage(250, 170, 62, 42, 7, 5, {"passage limit": 60, "no tokens": 20}, 2, 4, 3, 2)
    assert total.share == pytest.approx(0.68)
    assert CUT.documents == WHOLE.documents == 1, "the parts stay as they are"
    running = Coverage()
    same = running
    running += CUT
    assert same is running == CUT
    assert running.left_out is not CUT.left_out


def test_coverage_is_read_back_and_nothing_is_a_whole_share() -> None:
    assert Coverage.from_dict(CUT.to_dict()) == CUT
    assert list(CUT.to_dict()["left_out"]) == ["no tokens", "passage limit"]
    assert Coverage().share == 1.0


def test_one_warning_says_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    WHOLE.warn()
    assert not caplog.records
    (CUT + WHOLE).warn()
    CUT.warn("a")
    first, second = (record.getMessage() for record in caplog.records)
    assert all(part in first for part in ("1 of 2 documents", "30 characters: passage limit", "max_passages"))
    assert "document 'a'" in second


def test_text_of_furniture_is_counted_in_characters(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    page = (
        "<html><head><title>Tides</title><script>let a = 1;</script></head><body><nav><a href='/a'>Home page</a></nav>"
        "<main><h1>Tides</h1><p>Tides rise and fall twice a day.</p><p hidden>Not shown.</p></main>"
        "<footer>Copyright 2020, all rights reserved<script>b()</script></footer></body></html>"
    )
    document = Document.from_html(page, id="tides")
    left_out = ("Home page", "Not shown.", "Copyright 2020, all rights reserved")
    expected = sum(len("".join(text.split())) for text in left_out)
    encoder = tiny_encoder("bert")
    coverage = encoder.segment(document).coverage
    assert (coverage.furniture, coverage.to_dict()["furniture"], coverage.share) == (expected, expected, 1)
    assert (coverage + coverage).furniture == 2 * expected
    assert Coverage.from_dict(coverage.to_dict()) == coverage
    assert encoder.segment(Document.from_html("<main><p>Tides rise.</p></main>")).coverage.furniture == 0
    # What travels to other processes is counted there.
    (cut,) = segment_in_order([document], encoder.segmenter, Workers(1, 0))
    assert cut.coverage == coverage and cut.document is document
