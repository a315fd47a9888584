from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import lxml.etree
import lxml.html
import pytest
from comparison_payload import ATTACK
from search_results import make_alignment, make_attack, make_hit, make_passage, make_results

from graphdoc.analysis.search_page.page import search_page, write_search_page
from graphdoc.errors import OutputError


def page_of(results: dict[str, Any]) -> Any:
    return lxml.html.document_fromstring(search_page(results))


def words(element: Any) -> str:
    return " ".join(element.text_content().split())


def widths(element: Any, kind: str) -> list[float]:
    return [float(bar.get("width").rstrip("%")) for bar in element.xpath(f".//rect[starts-with(@class, '{kind}')]")]


def test_the_query_and_how_it_was_searched() -> None:
    page = page_of(make_results(where="year >= 2010", warnings=["The index is 12 documents behind"]))
    head = page.find_class("masthead")[0]
    assert words(head.find("h1")) == "tidal barrage"
    assert page.find("head/title").text == "tidal barrage – search"
    shown = words(head)
    assert "Ranked by words and vectors, fused by reciprocal rank, with mini" in shown
    assert "3 hits in 232 documents with 22,000 passages, filter year >= 2010." in shown
    assert words(head.find_class("notice")[0]) == "The index is 12 documents behind"
    settings = {words(row.find("dt")): words(row.find("dd")) for row in head.findall(".//dl/div")}
    assert settings["most hits"] == "10"
    assert settings["index"] == "library"
    assert settings["model’s graph layers"] == "2"


def test_a_document_as_query() -> None:
    query = {"text": "Its whole text.", "document": "a/b.md", "title": "On Tides"}
    head = page_of(make_results(query=query)).find_class("masthead")[0]
    assert words(head.find("h1")) == "Documents like On Tides"
    assert words(head.find_class("id")[0]) == "a/b.md"
    assert "Its whole text." in words(head.find_class("whole-query")[0])
    untitled = page_of(make_results(query={**query, "title": "", "text": ""})).find_class("masthead")[0]
    assert words(untitled.find("h1")) == "Documents like a/b.md"
    assert not untitled.find_class("id") and not untitled.find_class("whole-query")


def test_a_query_of_many_words_is_whole_below_its_beginning() -> None:
    text = "word " * 20_000
    page = page_of(make_results(query={"text": text, "document": None, "title": ""}))
    assert len(words(page.find(".//h1"))) < 300
    assert page.find_class("whole-query")[0].find("p").text == text
    assert (
        words(page_of(make_results(query={"text": " ", "document": None, "title": ""})).find(".//h1")) == "Empty query"
    )


def test_a_hit_is_shown_with_its_parts_and_they_add_up() -> None:
    results = make_results()
    for card, hit in zip(page_of(results).find_class("hit"), results["hits"], strict=True):
        assert words(card.find_class("rank")[0]) == f"Rank {hit['rank']}"
        assert words(card.find(".//h2")) == hit["title"]
        assert card.find(".//h2/a").get("href") == hit["comparison"]
        assert words(card.find_class("id")[0]) == hit["id"]
        score = card.find_class("score-of-hit")[0]
        assert words(score.find_class("score")[0]) == f"{hit['score']:.5f}"
        first, second = map(words, score.find_class("parts")[0])
        rank, places = hit["rank"], 2 if hit["rank"] < 3 else 3
        assert first.startswith(f"words rank {rank}, score {25 / rank:.{places}f}, adds {1 / (60 + rank):.5f} (5")
        assert second.startswith(f"vectors rank {hit['rank'] + 2}, score")
        shown = [float(found) for found in re.findall(r"adds ([\d.]+)", first + second)]
        assert sum(shown) == pytest.approx(hit["score"], abs=1.1e-5)
        assert words(card.find_class("tags")[0]) == f"year {1990 + hit['rank']}authors Ada Byron, Émilie du Châtelet"
        label = score.find("svg").get("aria-label")
        assert f"{hit['score']:.5f}" in label and "words" in label and "vectors" in label


def test_bars_are_as_wide_as_their_shares_of_the_best_score() -> None:
    results = make_results()
    best = results["hits"][0]["score"]
    for card, hit in zip(page_of(results).find_class("hit"), results["hits"], strict=True):
        bar = card.find_class("score-of-hit")[0].find("svg")
        assert widths(bar, "words") == [pytest.approx(100 * hit["parts"]["words"]["share"] / best, abs=0.01)]
        assert widths(bar, "vectors") == [pytest.approx(100 * hit["parts"]["vectors"]["share"] / best, abs=0.01)]
        starts = [float(one.get("x").rstrip("%")) for one in bar]
        assert starts == [0, widths(bar, "words")[0]]
        for shown, passage in zip(card.find_class("passage"), hit["passages"], strict=True):
            assert widths(shown, "words") == [pytest.approx(100 * passage["words"] / 12.5, abs=0.01)]
            assert widths(shown, "vectors") == [pytest.approx(100 * passage["vectors"] / 0.75, abs=0.01)]


def test_a_ranking_that_did_not_find_a_document_says_so() -> None:
    hit = make_hit(1)
    del hit["parts"]["vectors"]
    hit["passages"] = [make_passage(0, "Nothing of it.", vectors=None), make_passage(1, "tidal", vectors=-0.5)]
    card = page_of(make_results(hits=[hit])).find_class("hit")[0]
    assert [words(part) for part in card.find_class("parts")[0]][1] == "vectors did not find it"
    assert not widths(card.find_class("score-of-hit")[0].find("svg"), "vectors")
    first, second = card.find_class("passage")
    assert not first.find_class("thin")
    assert widths(second, "vectors") == [0]
    assert "vectors \u22120.5000" in words(second)


def test_one_ranking_alone_has_no_shares() -> None:
    hits = [make_hit(rank, score=25 / rank) for rank in (1, 2)]
    for hit in hits:
        hit["parts"] = {"words": {"rank": hit["rank"], "score": hit["score"], "share": hit["score"]}}
    page = page_of(make_results(hits=hits, by="words", fusion=None))
    assert "Ranked by words, with mini" in words(page.find_class("masthead")[0])
    card = page.find_class("hit")[1]
    assert [words(part) for part in card.find_class("parts")[0]] == ["words rank 2, score 12.50"]
    assert widths(card.find_class("score-of-hit")[0].find("svg"), "words") == [50]
    assert words(card.find_class("sum")[0]) == "12.50 from words = 12.50."


def test_passages_have_heading_place_text_and_marks() -> None:
    results = make_results(hits=1)
    passage = results["hits"][0]["passages"][1]
    shown = page_of(results).find_class("passage")[1]
    assert words(shown.find_class("passage-head")[0]).startswith("Part 1 passage 2 · section 1 · characters 700–1,000")
    assert shown.find_class("text")[0].text_content() == passage["text"]
    assert [mark.text for mark in shown.findall(".//mark")] == ["tidal"] * len(passage["matches"])


def test_what_is_far_from_matches_is_there_and_set_apart() -> None:
    text = "a " * 1_000 + "tidal " + "b " * 1_000
    shown = page_of(make_results(hits=[make_hit(1, passages=0) | {"passages": [make_passage(0, text)]}]))
    (passage,) = shown.find_class("passage")
    assert "".join(one.text_content() for one in passage.find_class("far")).count("a ") > 900
    whole = passage.find_class("text")[0].text_content().replace("… ", "").replace(" …", "")
    assert whole == text
    assert words(passage.find_class("whole")[0]) == f"Whole passage ({len(text):,} characters)"


def test_the_explanation_adds_up() -> None:
    results = make_results(hits=2, passages=3)
    card = page_of(results).find_class("hit")[1]
    assert re.fullmatch(
        r"0\.01613 from words \(rank 2\) \+ 0\.01562 from vectors \(rank 4\) = 0\.0317[56], by reciprocal rank\.",
        words(card.find_class("sum")[0]),
    )
    by_term, by_passage = card.findall(".//table")
    rows = [[words(cell) for cell in row] for row in by_term.findall("tbody/tr")]
    assert [row[:4] for row in rows] == [["tidal", "7", "18", "7.500"], ["barrage", "3", "4", "5.000"]]
    assert widths(by_term, "words") == [100, pytest.approx(66.67)]
    assert [words(cell) for cell in by_term.find("tfoot/tr")] == ["All terms", "12.500", ""]
    assert words(by_passage.find("tbody/tr/th")) == "1 Part 0"
    assert [words(cell) for cell in by_passage.find("tfoot/tr")][:2] == ["All passages", "1.0000"]


def test_an_explanation_that_does_not_add_up_says_so() -> None:
    results = make_results(hits=1)
    results["hits"][0]["explanation"]["words"][0]["part"] = -3.0
    table = page_of(results).findall(".//table")[0]
    assert [words(cell) for cell in table.find("tfoot/tr")][:2] == ["All terms listed; the score is 25.00", "7.00"]
    assert table.find("tbody/tr").find(".//rect").get("class") == "words against"


def test_pairs_of_paragraphs_and_sentences_are_cut_to_the_best_and_the_rest_is_counted() -> None:
    parts = {"sentences": {"rank": 1, "score": 0.5, "share": 0.5}}
    for stretch in (True, False):
        alignment = make_alignment(7, 14, stretch=stretch)
        rows = [
            {
                "source": one,
                "candidate": 2,
                "source_heading": f"Own part {one}",
                "candidate_heading": "",
                "part": 0.001,
            }
            for one in range(120)
        ]
        hit = make_hit(1, 0, parts=parts, score=0.5, alignment=alignment, explanation={"sentences": rows})
        page = page_of(make_results(hits=[hit], by="sentences", fusion=None))
        assert words(page.find_class("legend")[0]).startswith("sentences: a hit’s bar")
        (card,) = page.find_class("hit")
        assert [words(part) for part in card.find_class("parts")[0]] == ["sentences rank 1, score 0.5000"]
        assert widths(card.find_class("score-of-hit")[0].find("svg"), "sentences") == [100]
        assert card.find(".//h2/a").get("href") == "comparisons/1.html#alignment"
        (aligned,) = card.find_class("aligned")
        assert f"The 5 strongest pairs of paragraphs, of 7 pairs that add up to {alignment['score']:.4f}" in (
            words(aligned)
        )
        shown = aligned.xpath("details")
        assert len(shown) == 5 and [one.get("open") is not None for one in shown] == [True] + 4 * [False]
        for found, pair in zip(shown, alignment["pairs"], strict=False):
            summary = words(found.find("summary"))
            assert f"adds {pair['contribution']:.4f}" in summary and f"cosine {pair['score']:.3f}" in summary
            assert pair["source_heading"] in summary
            listed = found.find_class("sentence-pair")
            assert len(listed) == 12 and "2 sentence pairs that add less left out" in words(found)
            for one, sentence in zip(listed, pair["sentences"], strict=False):
                assert f"cosine {sentence['cosine']:.3f}" in words(one) and sentence["candidate_text"] in words(one)
            assert found.xpath(".//a/@href") == [f"comparisons/1.html#paragraphs={pair['source'] + 1},3"]
            marks = [mark.get("data-pairs") for mark in found.xpath(".//mark")]
            assert marks == (2 * [str(rank) for rank in range(1, 13)] if stretch else [])
        (table,) = card.findall(".//table")
        assert "and 20 more pairs that add less" in words(table) and "0.12000" in words(table.find("tfoot"))


def test_no_explanation_no_comparison_no_metadata() -> None:
    hit = make_hit(1, explanation=None, comparison=None, metadata={}, title="")
    card = page_of(make_results(hits=[hit])).find_class("hit")[0]
    assert not card.find_class("why") and not card.find_class("tags") and card.find(".//a") is None
    assert words(card.find(".//h2")) == hit["id"]
    assert not card.find_class("id")


def test_no_hits_are_said_with_the_warnings() -> None:
    page = page_of(make_results(hits=0, where="year > 3000", warnings=["Only stop words were left of the query"]))
    head = words(page.find_class("masthead")[0])
    assert "No document was found in 232 documents with 22,000 passages, filter year > 3000." in head
    assert "Only stop words were left of the query" in head
    assert "Without the filter" in head
    assert not page.find_class("hit") and not page.find_class("legend")


def test_attacks_are_text_and_nothing_else() -> None:
    html = search_page(make_attack())
    html.encode("utf-8")
    assert "\x00" not in html
    page = lxml.html.document_fromstring(html)
    assert len(page.xpath("//script")) == 2
    assert not page.xpath("//img | //iframe | //object | //@*[starts-with(name(), 'on')] | //@style")
    assert page.xpath("//main//a/@href") == []
    assert page.xpath("//@src | //link/@href") == ["data:,"]
    assert ATTACK in page.find(".//h1").text_content()
    assert ATTACK in page.find_class("hit")[0].find(".//h2").text_content()
    assert "7*7" in html and ">49<" not in html
    assert "no value" in words(page.find_class("score-of-hit")[0])
    assert {bar.get("width") for bar in page.xpath("//article//svg[@class='bar']/rect")} == {"0.0%"}


@pytest.mark.parametrize(
    "results", [make_results(), make_results(hits=0), make_attack()], ids=["plain", "empty", "attack"]
)
def test_tags_are_closed_and_identifiers_are_unique(results: dict[str, Any]) -> None:
    parser = lxml.etree.HTMLParser()
    tree = lxml.etree.fromstring(search_page(results), parser)
    # libxml2 does not know elements younger than HTML 4.
    assert [entry.message for entry in parser.error_log if entry.type_name != "HTML_UNKNOWN_TAG"] == []
    identifiers = tree.xpath("//@id")
    assert len(identifiers) == len(set(identifiers))
    assert set(tree.xpath("//@aria-labelledby")) <= set(identifiers)


def test_the_policy_allows_the_scripts_and_styles_of_the_page_and_no_other() -> None:
    page = page_of(make_results())
    policy = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    def hashed(element: Any) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()}'"

    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert rules["script-src"] == " ".join(map(hashed, page.xpath("//script")))
    assert rules["style-src"] == " ".join(map(hashed, page.xpath("//style")))
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", page.xpath("//script")[-1].text
    )


def test_results_of_another_kind_are_refused() -> None:
    for key in ("query", "hits"):
        with pytest.raises(OutputError) as error:
            search_page(make_results() | {key: 7})
        assert repr(key) in str(error.value) and "7" in str(error.value)
    with pytest.raises(OutputError, match="hits"):
        search_page({"query": {"text": "x"}})


def test_the_page_is_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "results.html"
    assert write_search_page(make_results(), target) == target
    assert target.read_text(encoding="utf-8") == search_page(make_results())
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"results\.html"):
        write_search_page(make_results(), tmp_path / "file" / "results.html")
