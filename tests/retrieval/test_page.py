"""The page of a search by sentences in a real browser: what is alike, and the reports it leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from open_report import Report

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.retrieval.alignments import SHOWN_PAIRS, SHOWN_SENTENCES

pytestmark = pytest.mark.browser

ATTACK = "The <script>window.attacked=1</script> sluice opens."


def flat(text: str) -> str:
    return " ".join(text.split())


def test_hits_show_their_best_pairs_and_lead_to_reports(
    browser: Any, tmp_path: Path, encoder: DocumentEncoder
) -> None:
    mud = [Section(f"Mud settles on day {day}. {ATTACK} Birds come.", heading=f"Day {day}") for day in range(7)]
    long = Section(" ".join(f"The gauge shows {height} centimetres." for height in range(40)), heading=ATTACK)
    source = Document("new", [Section(f"The tide rises. {ATTACK}", heading="Tides"), *mud, long], title="On tides")
    index = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    index.update([Document("mud", [*mud, long], title=ATTACK), Document("rice", [Section("Rice is washed.")])])
    found = index.search(source, by="sentences", direction="both", weight=0.25)
    path = found.to_html(tmp_path / "hits.html", compare=index.comparer(source, "sentences"))
    assert ATTACK not in path.read_text(encoding="utf-8")
    shown = Report(browser, path)
    # Hits off the screen have no text until they are drawn.
    shown.page.evaluate("document.querySelectorAll('.hit').forEach(hit => hit.style.contentVisibility = 'visible')")
    shown.page.click("#open-all")
    for hit in found:
        assert hit.alignment is not None
        best = hit.alignment.best(SHOWN_PAIRS)
        for pair, details in zip(best, shown.page.locator(f"#hit-{hit.rank} details.pair").all(), strict=True):
            summary = flat(details.locator("summary").inner_text())
            assert float(summary.split("adds ")[1].split()[0]) == pytest.approx(pair.contribution, rel=6e-3)
            chosen = sorted(pair.sentences, key=lambda part: (-part.contribution, part.source, part.candidate))
            buttons = details.locator(".sentence-pair").all()
            assert len(buttons) == min(len(chosen), SHOWN_SENTENCES)
            for number, (part, button) in enumerate(zip(chosen, buttons, strict=False), start=1):
                texts = [hit.alignment.text("source", part.source), hit.alignment.text("candidate", part.candidate)]
                assert f"cosine {part.cosine:.3f} {' '.join(texts)}" in flat(button.text_content())
                # Both sentences stand in the texts, under the number of their pair.
                marks = details.locator(f"mark[data-pairs~='{number}']").all_text_contents()
                assert [flat(mark).lstrip("0123456789, ") for mark in marks] == texts
    first = shown.page.locator("#hit-1 details.pair >> nth=0")
    pair = found[0].alignment.best(1)[0]
    first.locator("a").click()
    assert shown.page.url.endswith(f"hits-comparisons/001.html#paragraphs={pair.source + 1},{pair.candidate + 1}")
    shown.page.locator("#panel-alignment").wait_for()
    assert shown.page.evaluate("window.attacked") is None and shown.logged == []
    shown.context.close()
