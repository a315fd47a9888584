"""The comparison report of a hit has the score of the search, in its way, and what makes it up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphdoc import Document, DocumentEncoder, DocumentIndex
from graphdoc.analysis.report.page import render_report
from graphdoc.retrieval import alignments as module
from graphdoc.retrieval.results import SearchResults
from graphdoc.segmentation.segmenter import Segmenter


@pytest.fixture
def index(tmp_path: Path, encoder: DocumentEncoder, documents: list[Document]) -> DocumentIndex:
    made = DocumentIndex.create(tmp_path / "index", encoder, sentences="blank_line")
    made.update(documents)
    return made


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the page of a search; gives what every report is made of, and its page."""
    found: list[Mapping[str, Any]] = []

    def render(content: Mapping[str, Any]) -> str:
        found.append(content)
        return render_report(content)

    monkeypatch.setattr(module, "render_report", render)

    def write(index: DocumentIndex, results: SearchResults, query: Document) -> list[tuple[Mapping[str, Any], str]]:
        found.clear()
        results.to_html(tmp_path / "hits.html", compare=index.comparer(query, results.by))
        pages = sorted((tmp_path / "hits-comparisons").iterdir())
        return list(zip(found, (page.read_text(encoding="utf-8") for page in pages), strict=True))

    return write


@pytest.mark.parametrize(
    ("by", "normalisation", "direction"),
    [("sentences", "zscore", "source"), ("paragraphs", "zscore", "both"), ("document", "none", "source")],
)
def test_a_report_has_the_score_of_the_search(
    index: DocumentIndex, documents: list[Document], written: Any, by: Any, direction: Any, normalisation: Any
) -> None:
    settings = {"by": by, "direction": direction, "normalisation": normalisation}
    results = index.search(documents[0], weight=0.3, **settings)
    reports = written(index, results, documents[0])
    assert len(reports) == len(results) == 3
    for hit, (content, page) in zip(results, reports, strict=True):
        score = hit.parts[by].score
        about = {"score": pytest.approx(score, abs=1e-9), "aligned": by != "document", "left_out": 0}
        assert content["search"] == {**settings, **about}
        heading = re.search(r'id="score-of-search">([^<]*)<', page)
        assert heading is not None and heading[1].startswith(f"Score of the search, by {by}: ")
        shown = float(heading[1].rpartition(" ")[2].replace("\N{MINUS SIGN}", "-"))
        assert shown == pytest.approx(score, abs=6e-3)
        assert ("for B in A." in page or "for B in A;" in page) == (direction == "both")
        assert ("scores are z-scores" in page) == (normalisation == "zscore")
        if by == "document":
            continue
        pairs, told = content["alignment"]["pairs"], hit.alignment.to_dict()["pairs"]
        assert sum(pair["contribution"] for pair in pairs) == pytest.approx(score, abs=1e-9)
        assert {pair["direction"] for pair in pairs} == {"source", *(["candidate"] if direction == "both" else [])}
        for side, mine in (("source", "a"), ("candidate", "b")):
            for pair, expected in zip(pairs, told, strict=True):
                texts = [content[mine]["sentences"][part[side]]["text"] for part in pair["sentences"]]
                assert texts == [part[f"{side}_text"] for part in expected["sentences"]]
                first, end = content[mine]["paragraphs"][pair[side]]["sentences"]
                assert all(first <= part[side] < end for part in pair["sentences"])


def test_what_the_report_does_not_show_is_counted(
    index: DocumentIndex, documents: list[Document], written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = index.search(documents[0], by="sentences")
    segmenter = index.encoder.segmenter
    short = Segmenter(segmenter.tokenizer, replace(segmenter.config, max_passages=1))
    monkeypatch.setattr(index.encoder, "segmenter", short)
    for hit, (content, page) in zip(results, written(index, results, documents[0]), strict=True):
        total = sum(len(pair.sentences) for pair in hit.alignment.pairs)
        there = sum(len(pair["sentences"]) for pair in content["alignment"]["pairs"])
        assert content["search"]["left_out"] > 0 and "not shown here" in page
        if content["search"]["aligned"]:
            assert content["search"]["left_out"] + there == total
        assert content["search"]["score"] == pytest.approx(hit.score, abs=1e-9)
