"""The page of a search by sentences, from the index to a real browser: what is alike, and the reports it leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from open_report import Report

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.retrieval.sentences import SHOWN_PAIRS, SHOWN_SENTENCES

pytestmark = pytest.mark.browser

ATTACK = "The <script>window.attacked=1</script> sluice opens."


@pytest.fixture(scope="module")
def stored() -> list[Document]:
    """Two documents, one of them with more paragraphs and sentences than are shown."""
    mud = [Section(f"Mud settles on day {day}. {ATTACK} Birds come.", heading=f"Day {day}") for day in range(7)]
    long = Section(" ".join(f"The gauge shows {height} centimetres." for height in range(40)), heading=ATTACK)
    return [Document("mud", [*mud, long], title=ATTACK), Document("rice", [Section("Rice is washed. It is steamed.")])]


@pytest.fixture(scope="module")
def source(stored: list[Document]) -> Document:
    """A document that is asked with, as long as what is found."""
    tides = "The tide rises. The moon pulls the sea. Birds leave. Nobody pays. " + ATTACK
    return Document("new", [Section(tides, heading="Tides"), *stored[0].sections], title="On tides")


def flat(text: str) -> str:
    return " ".join(text.split())


def test_hits_show_their_best_pairs_and_lead_to_reports(
    browser: Any, tmp_path: Path, encoder: DocumentEncoder, stored: list[Document], source: Document
) -> None:
    index = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    index.update(stored)
    found = index.search(source, by="sentences", direction="both", weight=0.25)
    path = found.to_html(tmp_path / "hits.html", compare=index.comparer(source, "sentences"))
    assert ATTACK not in path.read_text(encoding="utf-8")
    shown = Report(browser, path)
    # Hits off the screen have no text until they are drawn.
    shown.page.evaluate("document.querySelectorAll('.hit').forEach(hit => hit.style.contentVisibility = 'visible')")
    shown.page.click("#open-all")
    for hit in found:
        assert hit.alignment is not None
        card = shown.page.locator(f"#hit-{hit.rank}")
        excerpt = hit.alignment.excerpt()
        best = hit.alignment.alignment.best(SHOWN_PAIRS)
        assert flat(card.locator(".parts").inner_text()).count("rank") == 2
        for pair, content, details in zip(best, excerpt["pairs"], card.locator("details.pair").all(), strict=True):
            summary = flat(details.locator("summary").inner_text())
            added, cosine = (float(summary.split(f"{word} ")[1].split()[0]) for word in ("adds", "cosine"))
            assert added == pytest.approx(pair.contribution, rel=6e-3) and cosine == pytest.approx(
                pair.score, abs=6e-4
            )
            headings = (
                hit.alignment.heading("source", pair.source),
                hit.alignment.heading("candidate", pair.candidate),
            )
            assert all(flat(heading) in summary for heading in headings)
            chosen = sorted(pair.sentences, key=lambda one: (-one.contribution, one.source, one.candidate))
            buttons = details.locator(".sentence-pair").all()
            assert len(buttons) == min(len(chosen), SHOWN_SENTENCES) and content["total"] == len(chosen)
            left = len(chosen) - len(buttons)
            assert (f"{left} sentence pairs that add less left out" in details.inner_text()) == (left > 1)
            for number, (one, button) in enumerate(zip(chosen, buttons, strict=False), start=1):
                texts = hit.alignment.text("source", one.source), hit.alignment.text("candidate", one.candidate)
                said = flat(button.text_content())
                assert f"cosine {one.cosine:.3f} {texts[0]} {texts[1]}" in said
                assert float(said.split("adds ")[1].split()[0]) == pytest.approx(one.contribution, rel=6e-3)
                # Both sentences stand in the texts, under the number of their pair.
                marks = details.locator(f"mark[data-pairs~='{number}']").all_text_contents()
                assert [flat(mark).lstrip("0123456789, ") for mark in marks] == list(texts)
            buttons[-1].press("Enter")
            assert buttons[-1].get_attribute("aria-pressed") == "true"
            marked = details.locator("mark.is-chosen").all_text_contents()
            assert [flat(mark).lstrip("0123456789, ") for mark in marked] == list(texts)
            buttons[-1].press("Space")
            assert details.locator("mark.is-chosen").count() == 0
    first = shown.page.locator("#hit-1 details.pair >> nth=0")
    first.locator("summary").click()
    assert not first.locator(".both-texts").is_visible()
    first.locator("summary").press("Enter")
    pair = found[0].alignment.alignment.best(1)[0]  # type: ignore[union-attr]
    first.locator("a").click()
    assert shown.page.url.endswith(f"hits-comparisons/001.html#paragraphs={pair.source + 1},{pair.candidate + 1}")
    # The report is drawn after the address has changed.
    for drawn in ("#panel-alignment", ".sentence-pair", ".is-of-paragraph"):
        shown.page.locator(drawn).first.wait_for(state="visible" if drawn.startswith("#") else "attached")
    shown.page.go_back()
    shown.page.click("#hit-1 h2 a")
    shown.page.locator("#panel-alignment").wait_for()
    assert shown.page.url.endswith("001.html#alignment")
    assert shown.page.evaluate("window.attacked") is None and shown.logged == []
    shown.context.close()
