"""The pages of searches and of documents compared with each other, as text."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import lxml.etree
import lxml.html
import numpy as np
import pytest
from comparison_payload import ATTACK
from search_results import make_alignment, make_attack, make_hit, make_passage, make_results

from graphdoc.analysis.pages.matrix import render_matrix
from graphdoc.analysis.pages.search import search_page
from graphdoc.analysis.projection import order_of


def page_of(results: dict[str, Any]) -> Any:
    return lxml.html.document_fromstring(search_page(results))


def words(element: Any) -> str:
    return " ".join(element.text_content().split())


def widths(element: Any, kind: str) -> list[float]:
    return [float(bar.get("width").rstrip("%")) for bar in element.xpath(f".//rect[starts-with(@class, '{kind}')]")]


def test_the_query_and_how_it_was_searched() -> None:
    page = page_of(make_results(where="year >= 2010", warnings=["The index is 12 documents behind"]))
    head = page.find_class("masthead")[0]
    assert words(head.find("h1")) == "tidal barrage" and page.find("head/title").text.startswith("tidal barrage")
    for text in ("words and vectors", "reciprocal rank", "mini", "3 hits", "232 documents", "1 hit was not"):
        assert text in words(head)
    assert words(head.find("p[@class='found']/code")) == "year >= 2010"
    assert words(head.find_class("notice")[0]) == "The index is 12 documents behind"
    settings = {words(row.find("dt")): words(row.find("dd")) for row in head.findall(".//dl/div")}
    assert (settings["most hits"], settings["index"], settings["model’s graph layers"]) == ("10", "library", "2")


def test_a_hit_is_shown_with_its_parts_and_they_add_up() -> None:
    results = make_results()
    best = results["hits"][0]["score"]
    for card, hit in zip(page_of(results).find_class("hit"), results["hits"], strict=True):
        assert words(card.find_class("rank")[0]) == f"Rank {hit['rank']}"
        assert words(card.find(".//h2")) == hit["title"] and card.find(".//h2/a").get("href") == hit["comparison"]
        score = card.find_class("score-of-hit")[0]
        assert words(score.find_class("score")[0]) == f"{hit['score']:.5f}"
        parts = list(map(words, score.find_class("parts")[0]))
        assert parts[0].startswith(f"words rank {hit['rank']}, score")
        shown = [float(found) for found in re.findall(r"adds ([\d.]+)", "".join(parts))]
        assert sum(shown) == pytest.approx(hit["score"], abs=1.1e-5)
        assert words(card.find_class("tags")[0]) == f"year {1990 + hit['rank']}authors Ada Byron, Émilie du Châtelet"
        bar = score.find("svg")
        for kind in ("words", "vectors"):
            assert widths(bar, kind) == [pytest.approx(100 * hit["parts"][kind]["share"] / best, abs=0.01)]
        assert [float(one.get("x").rstrip("%")) for one in bar] == [0, widths(bar, "words")[0]]
        for shown_passage, passage in zip(card.find_class("passage"), hit["passages"], strict=True):
            assert widths(shown_passage, "words") == [pytest.approx(100 * passage["words"] / 12.5, abs=0.01)]
            assert widths(shown_passage, "vectors") == [pytest.approx(100 * passage["vectors"] / 0.75, abs=0.01)]


def test_hits_of_one_ranking_and_hits_with_little() -> None:
    hit = make_hit(1, explanation=None, comparison=None, metadata={}, title="")
    del hit["parts"]["vectors"]
    hit["passages"] = [make_passage(0, "Nothing of it.", vectors=None), make_passage(1, "tidal", vectors=-0.5)]
    card = page_of(make_results(hits=[hit])).find_class("hit")[0]
    assert len(card.find_class("parts")[0]) == 2 and card.find(".//a") is None
    assert not card.find_class("why") and not card.find_class("tags") and not card.find_class("id")
    assert words(card.find(".//h2")) == hit["id"]
    second = card.find_class("passage")[1]
    assert widths(second, "vectors") == [0] and "vectors \u22120.5000" in words(second)
    alone = make_hit(1, score=12.5, parts={"words": {"rank": 2, "score": 12.5, "share": 12.5}})
    card = page_of(make_results(hits=[alone], by="words", fusion=None)).find_class("hit")[0]
    assert [words(part) for part in card.find_class("parts")[0]] == ["words rank 2, score 12.50"]
    page = page_of(make_results(hits=0, where="year > 3000"))
    assert not page.find_class("hit") and not page.find_class("legend")


def test_passages_have_heading_place_text_and_marks() -> None:
    results = make_results(hits=1)
    passage = results["hits"][0]["passages"][1]
    shown = page_of(results).find_class("passage")[1]
    assert words(shown.find_class("passage-head")[0]).startswith("Part 1 passage 2 · section 1 · characters 700–1,000")
    assert shown.find_class("text")[0].text_content() == passage["text"]
    assert [mark.text for mark in shown.findall(".//mark")] == ["tidal"] * len(passage["matches"])
    text = "a " * 1_000 + "tidal " + "b " * 1_000
    page = page_of(make_results(hits=[make_hit(1, passages=0) | {"passages": [make_passage(0, text)]}]))
    (long,) = page.find_class("passage")
    assert "".join(one.text_content() for one in long.find_class("far")).count("a ") > 900
    assert long.find_class("text")[0].text_content().replace("… ", "").replace(" …", "") == text


def test_explanations_add_up_or_say_that_they_do_not() -> None:
    results = make_results(hits=2, passages=3)
    card = page_of(results).find_class("hit")[1]
    summed = re.findall(r"0\.\d+", words(card.find_class("sum")[0]))
    assert float(summed[0]) + float(summed[1]) == pytest.approx(float(summed[2]), abs=2e-5)
    by_term, by_passage = card.findall(".//table")
    rows = [[words(cell) for cell in row] for row in by_term.findall("tbody/tr")]
    assert [row[:4] for row in rows] == [["tidal", "7", "18", "7.500"], ["barrage", "3", "4", "5.000"]]
    assert widths(by_term, "words") == [100, pytest.approx(66.67)]
    assert [words(cell) for cell in by_term.find("tfoot/tr")] == ["All terms", "12.500", ""]
    assert words(by_passage.find("tbody/tr/th")) == "1 Part 0"
    results["hits"][0]["explanation"]["words"][0]["part"] = -3.0
    table = page_of(results).findall(".//table")[0]
    assert "25.00" in words(table.find("tfoot/tr"))
    assert table.find("tbody/tr").find(".//rect").get("class") == "words against"


def test_pairs_of_paragraphs_and_sentences_are_the_best_and_the_rest_is_counted() -> None:
    parts = {"sentences": {"rank": 1, "score": 0.5, "share": 0.5}}
    alignment = make_alignment(5, 12, left=2)
    hit = make_hit(1, 0, parts=parts, score=0.5, alignment=alignment, explanation=None)
    (card,) = page_of(make_results(hits=[hit], by="sentences", fusion=None)).find_class("hit")
    assert widths(card.find_class("score-of-hit")[0].find("svg"), "sentences") == [100]
    assert card.find(".//h2/a").get("href") == "comparisons/1.html#alignment"
    (aligned,) = card.find_class("aligned")
    assert f"of 7 pairs that add up to {alignment['score']:.4f}" in words(aligned)
    shown = aligned.xpath("details")
    assert [one.get("open") is not None for one in shown] == [True] + 4 * [False]
    for found, pair in zip(shown, alignment["pairs"], strict=True):
        summary = words(found.find("summary"))
        for text in (f"adds {pair['contribution']:.4f}", f"cosine {pair['score']:.3f}", pair["source_heading"]):
            assert text in summary
        assert "2 sentence pairs that add less" in words(found)
        for one, sentence in zip(found.find_class("sentence-pair"), pair["sentences"], strict=True):
            assert f"cosine {sentence['cosine']:.3f}" in words(one) and sentence["candidate_text"] in words(one)
        assert found.xpath(".//a/@href") == [f"comparisons/1.html#paragraphs={pair['source'] + 1},3"]
        marks = [mark.get("data-pairs") for mark in found.xpath(".//mark")]
        assert marks == 2 * [str(rank) for rank in range(1, 13)]


@pytest.mark.parametrize(
    "results", [make_results(), make_results(hits=0), make_attack()], ids=["hits", "none", "evil"]
)
def test_pages_are_sound_and_attacks_are_text(results: dict[str, Any]) -> None:
    html = search_page(results)
    html.encode("utf-8")
    parser = lxml.etree.HTMLParser()
    tree = lxml.etree.fromstring(html, parser)
    # libxml2 does not know elements younger than HTML 4.
    assert [entry.message for entry in parser.error_log if entry.type_name != "HTML_UNKNOWN_TAG"] == []
    identifiers = tree.xpath("//@id")
    assert len(identifiers) == len(set(identifiers)) and set(tree.xpath("//@aria-labelledby")) <= set(identifiers)
    assert len(tree.xpath("//script")) == 2 and "\x00" not in html and ">49<" not in html
    assert not tree.xpath("//img | //iframe | //object | //@*[starts-with(name(), 'on')] | //@style")
    assert tree.xpath("//@src | //link/@href") == ["data:,"]
    policy = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    for element in tree.xpath("//script | //style"):
        assert base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode() in policy
    if results["by"] != "hybrid":
        assert tree.xpath("//main//a/@href") == [] and ATTACK in "".join(tree.xpath("//h2//text()"))
        bars = tree.xpath("//article//svg[@class='bar']/rect/@width")
        assert set(bars) == {"0.0%"} and "no value" in "".join(tree.xpath("//*[@class='score-of-hit']//text()"))


def test_cells_of_the_matrix_are_the_scores_of_their_row_and_column() -> None:
    scores = np.random.default_rng(0).normal(size=(6, 6))
    scores = (scores + scores.T) / 2
    titles = [f"title {row}" for row in range(6)]
    first, second = np.triu_indices(6, 1)
    payload = {
        "model": {"name": "made up"},
        "similarity": "cosine",
        "documents": [{"id": title, "title": title} for title in titles],
        "scores": scores.tolist(),
        "pairs": [{"a": int(a), "b": int(b), "score": scores[a, b]} for a, b in zip(first, second, strict=True)],
    }
    links = {(1, 3): "r/1.html", (2, 0): "http://x/"}
    tree = lxml.html.fromstring(render_matrix(payload | {"not_whole": "2 of 6"}, links))
    (matrix,) = tree.find_class("matrix")
    assert "2 of 6" in tree.find_class("notice")[0].text
    heads = [head.get("title") for head in matrix.xpath("thead//th")[1:]]
    assert heads == [titles[row] for row in order_of(scores)]
    for line in matrix.xpath("tbody/tr"):
        own = titles.index(line.xpath(".//bdi")[0].text)
        for head, cell in zip(heads, line.xpath("td"), strict=True):
            other = titles.index(head)
            if own == other:
                assert cell.get("class") == "self"
                continue
            assert cell.text_content() == f"{round(scores[own, other], 2) + 0.0:.2f}".replace("-", "−")
            assert cell.xpath(".//a/@href") == (["r/1.html"] if {own, other} == {1, 3} else [])
    assert tree.get_element_by_id("pairs").xpath(".//a/@href") == ["r/1.html"]
