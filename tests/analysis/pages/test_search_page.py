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
from hypothesis import given, settings
from hypothesis import strategies as st
from search_results import make_alignment, make_attack, make_hit, make_passage, make_results

from graphdoc.analysis.pages.marks import excerpt, marked_text
from graphdoc.analysis.pages.matrix import render_matrix
from graphdoc.analysis.pages.page import decimals, number, relative_link
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
    assert settings["model’s lexical"] == "size: 512"


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
    results["hits"][0]["explanation"]["words"][0]["contribution"] = -3.0
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


@pytest.mark.parametrize("results", [make_results(), make_results(hits=0), make_attack()], ids=["hits", "none", "evil"])
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


def pieces_of(text: dict[str, list[tuple[str, bool]]]) -> list[tuple[str, bool]]:
    return [piece for stretch in ("before", "shown", "after") for piece in text[stretch]]


def marks(text: dict[str, list[tuple[str, bool]]]) -> list[str]:
    return [piece for piece, is_marked in pieces_of(text) if is_marked]


def test_a_long_text_shows_the_stretch_with_most_different_words() -> None:
    text = "tide " * 20 + "x " * 1_000 + "tide and barrage " + "y " * 1_000 + "tide"
    words = [word for word in ("tide", "barrage") for _ in range(text.count(word))]
    ranges = [
        [place, place + len(word)] for word in set(words) for place in range(len(text)) if text.startswith(word, place)
    ]
    shown = marked_text(text, ranges)
    assert "tide and barrage" in "".join(piece for piece, _ in shown["shown"])
    assert len(marks(shown)) == len(ranges) and "".join(piece for piece, _ in pieces_of(shown)) == text
    plain = marked_text("word " * 500, [])
    assert plain["before"] == [] and plain["shown"][0][0].endswith("word")
    # Ranges count code points.
    text = "𝔸 🌊🌊 tidal – e\u0301bb"
    assert marks(marked_text(text, [[text.index("tidal"), text.index("tidal") + 5]])) == ["tidal"]


@pytest.mark.parametrize(
    ("text", "ranges", "shown"),
    [
        ("short text", [(0, 5)], "short text"),
        ("word " * 40, [], "word word word word word …"),
        # One word in the middle, two at the end, and the beginning where it has as many.
        ("a " * 20 + "tide " + "b " * 20, [(40, 44)], "… a a tide b b b b b b …"),
        ("tide " + "b " * 30 + "tide", [(0, 4), (65, 69)], "tide b b b b b b b b …"),
        ("x " * 30 + "tide sea", [(60, 64), (65, 68)], "… x x x x x x tide sea"),
    ],
)
def test_an_excerpt(text: str, ranges: list[tuple[int, int]], shown: str) -> None:
    assert excerpt(text, ranges, 20) == shown
    # Without spaces a match stands near the beginning.
    found = excerpt("海" * 100 + "堰" + "海" * 100, [(100, 101)], 26)
    assert 0 < found.index("堰") <= 12 and len(found) <= 26 + 2 * 5 + 4


@settings(max_examples=30)
@given(
    st.text(max_size=300),
    st.lists(st.tuples(st.integers(-5, 310), st.integers(-5, 310)), max_size=12),
    st.integers(90, 200),
)
def test_nothing_is_lost_and_exactly_ranges_are_marked(text: str, ranges: list[tuple[int, int]], most: int) -> None:
    pieces = pieces_of(marked_text(text, ranges, most))
    assert all(piece for piece, _ in pieces) and "".join(piece for piece, _ in pieces) == text
    flags = [is_marked for piece, is_marked in pieces for _ in piece]
    expected = {place for start, end in ranges for place in range(max(0, start), min(len(text), end))}
    assert {place for place, is_marked in enumerate(flags) if is_marked} == expected


@pytest.mark.parametrize(
    ("link", "stays"),
    [
        *((link, True) for link in ("comparisons/3.html", "../a%20b/c.html#passages=1,2", "/compare?a=1&b=x:y")),
        *((link, False) for link in ("javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "a:b", ":")),
        *((link, False) for link in ("java\tscript:alert(1)", "\x01javascript:alert(1)", "data:text/html,x")),
        *((link, False) for link in ("http://example.org", "file:///etc/passwd", "//example.org", "/\\example.org")),
        *((link, False) for link in ("\\\\example.org", "/\t/example.org", "\u00a0//example.org", "", None, 7)),
    ],
)
def test_only_relative_links_stay(link: Any, stays: bool) -> None:
    assert relative_link(link) == (link if stays else None)


def test_numbers() -> None:
    assert [number(value) for value in (-0.0004, 0.0004, -0.0006)] == ["0.000", "0.000", "\u22120.001"]
    assert [number(value) for value in (None, float("nan"), float("inf"))] == ["no value"] * 3
    columns = ([0.0325], [31.2, 0.001], [-1234.5], [123456.0], [1e-12], [0.0, None], [])
    assert [decimals(column) for column in columns] == [5, 2, 0, 0, 6, 3, 3]
