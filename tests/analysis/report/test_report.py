"""The report of a comparison as text: what it holds, how large it is, and that nothing breaks out of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise
from typing import Any

import lxml.html
import numpy as np
import pytest
from comparison_payload import ATTACK, make_attack, make_payload
from typed import Encoders, Patch

from graphdoc import Document, Section
from graphdoc.analysis.report import content, page
from graphdoc.analysis.report.page import render_report
from graphdoc.errors import OutputError
from graphdoc.similarity.comparison import Comparison


def parse(html: str) -> Any:
    return lxml.html.document_fromstring(html)


def data_of(html: str) -> dict[str, Any]:
    return json.loads(parse(html).get_element_by_id("data").text)


def unpack(packed: dict[str, Any], rows: int) -> np.ndarray:
    cells = np.frombuffer(base64.b64decode(packed["values"]), dtype="<i2").astype(float)
    return np.where(cells == -32_768, np.nan, cells * packed["step"]).reshape(rows, -1)


def words(element: Any) -> str:
    return " ".join(element.text_content().split())


def listed_pairs(tree: Any, level: str) -> list[Any]:
    return tree.xpath(f"//*[@data-matches='{level}']//li/a[@class='pair']")


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    return make_payload(attention_heads=3)


@pytest.fixture(scope="module")
def report(payload: dict[str, Any]) -> str:
    return render_report(payload)


def test_what_stands_in_the_page_without_a_script(report: str, payload: dict[str, Any]) -> None:
    tree = parse(report)
    head = words(tree.find_class("masthead")[0])
    for text in (payload["a"]["title"], payload["b"]["title"], f"{payload['document']:.3f}", "mini", "Cosine"):
        assert text in head
    for letter in "ab":
        for number, passage in enumerate(payload[letter]["passages"], start=1):
            assert tree.get_element_by_id(f"{letter}-p{number}").find("p").text_content() == passage["text"]
        headings = tree.xpath(f"id('pane-{letter}')//section//*[starts-with(@class, 'heading')]")
        assert list(map(words, headings)) == [section["heading"] for section in payload[letter]["sections"]]
    # Parents without text of their own show once per opening.
    ancestors = tree.xpath("id('pane-a')//*[starts-with(@class, 'heading ancestor')]")
    assert list(map(words, ancestors)) == ["The wider picture"]
    for link, match in zip(listed_pairs(tree, "passages"), payload["matches"]["passages"], strict=True):
        assert (link.get("data-a"), link.get("data-b")) == (str(match["a"]), str(match["b"]))
        assert link.get("href") == f"#a-p{match['a'] + 1}"
        assert f"{match['score']:.3f}".replace("-", "−") in words(link)
    anchors = {element.get("id") for element in tree.iter() if element.get("id")}
    assert all(link.get("href")[1:] in anchors for link in tree.xpath("//a[starts-with(@href, '#')]"))
    rows = tree.xpath("(//table)[1]/tbody/tr[not(@class)]")
    for row, values in zip(rows, np.array(payload["sections"]), strict=True):
        assert f"B{values.argmax() + 1}" in words(row.find("td")) and f"{values.max():.3f}" in words(row)


def test_matrices_survive_packing(report: str, payload: dict[str, Any]) -> None:
    levels = data_of(report)["levels"]
    for name, level in levels.items():
        exact = np.array(payload[name])
        np.testing.assert_allclose(unpack(level["similarity"], len(exact)), exact, atol=5.1e-5)
        parts = unpack(level["contribution"], len(exact))
        np.testing.assert_allclose(parts, payload["contributions"][name], atol=np.abs(parts).max() / 30_000)
        assert parts.sum() == pytest.approx(payload["document"], abs=1e-3)
    attention = levels["passages"]["attention"]
    assert attention["heads"] == 3 and levels["sections"]["attention"] is None
    for one in range(3):
        shown = unpack(attention["to_b"][one], 14)
        np.testing.assert_allclose(shown, payload["attention"]["a_to_b"][one], atol=4e-5)
        np.testing.assert_allclose(shown.sum(1), 1, atol=1e-3)
        np.testing.assert_allclose(unpack(attention["to_a"][one], 14).T, payload["attention"]["b_to_a"][one], atol=4e-5)
    # Scores beyond the range of cosine, and contributions that add up to more than the score.
    large = make_payload() | {"passages": (1000 * np.array(payload["passages"])).tolist()}
    large["evidence"] = {"vectors": 4.0, "words": 3.0, "sum": 7.0}
    data = data_of(render_report(large))
    shown = unpack(data["levels"]["passages"]["similarity"], 14)
    assert data["total"] == 7.0
    np.testing.assert_allclose(shown, large["passages"], atol=np.abs(shown).max() / 30_000)


def test_a_document_within_itself_has_no_diagonal_and_each_pair_once() -> None:
    payload = make_payload(passages=(9, 9), sections=(3, 3), within=True, attention_heads=2)
    payload["matches"]["passages"] = [
        {"a": a, "b": b, "score": 0.5, "contribution": 0.1} for a, b in ((1, 2), (2, 1), (3, 3), (0, 4))
    ]
    html = render_report(payload)
    passages = data_of(html)["levels"]["passages"]
    shown = unpack(passages["similarity"], 9)
    assert np.isnan(np.diag(shown)).all() and np.isnan(shown).sum() == 9
    links = listed_pairs(parse(html), "passages")
    assert [(link.get("data-a"), link.get("data-b")) for link in links] == [("1", "2"), ("0", "4")]
    # Passages that cannot see each other have no weight.
    assert "to_a" not in passages["attention"] and 'name="direction"' not in html
    for head, weights in zip(passages["attention"]["to_b"], np.array(payload["attention"]["a"]), strict=True):
        np.testing.assert_array_equal(np.isnan(unpack(head, 9)), weights == 0)
        np.testing.assert_allclose(np.nan_to_num(unpack(head, 9)), weights, atol=4e-5)


def test_what_was_left_out_what_made_the_scores_and_sentences_inside_their_passages() -> None:
    payload = make_payload(sentences=True)
    payload["coverage"]["b"].update(passages=61, left_out={"passage limit": 5120}, split_sentences=2)
    payload["model"].update(trained=False, readout="initial_mean")
    tree = parse(render_report(payload))
    head = words(tree.find_class("masthead")[0])
    for text in ("11 of 61 passages", "5,120 characters", "not been trained", "before the graph"):
        assert text in head
    assert "2 sentences" in words(tree.find_class("coverage")[0])
    assert not parse(render_report(make_payload())).find_class("masthead")[0].xpath("p[@class='notice']")
    for letter in "ab":
        spans = tree.xpath(f"id('pane-{letter}')//*[@data-sentence]")
        assert [span.text for span in spans] == [sentence["text"] for sentence in payload[letter]["sentences"]]
    with pytest.raises(OutputError, match="comparison/9"):
        render_report({**payload, "format": "graphdoc.comparison/9"})


def test_the_file_stays_small(payload: dict[str, Any], report: str, monkeypatch: Patch) -> None:
    large = render_report(make_payload(passages=(300, 300), sections=(30, 30), words=100, attention_heads=4))
    assert len(large.encode()) < 5_000_000 and len(data_of(large)["levels"]["passages"]["attention"]["to_b"]) == 4
    monkeypatch.setattr(page, "MAP_CELLS", 10)
    html = render_report(make_payload(sentences=True))
    assert set(data_of(html)["levels"]) == {"sections", "passages"} and listed_pairs(parse(html), "sentences")
    monkeypatch.undo()
    monkeypatch.setattr(page, "ATTENTION_CELLS", 2 * 3 * 14 * 11 - 1)
    html = render_report(payload)
    attention = data_of(html)["levels"]["passages"]["attention"]
    assert attention["heads"] == 3 and len(attention["to_b"]) == len(attention["to_a"]) == 1
    np.testing.assert_allclose(
        unpack(attention["to_b"][0], 14), np.mean(payload["attention"]["a_to_b"], axis=0), atol=4e-5
    )
    assert 'id="head"' not in html and 'id="head"' in report


def test_attacks_are_text_and_the_policy_allows_the_scripts_and_styles_of_the_page_alone() -> None:
    html = render_report(make_attack(attention_heads=2))
    tree = parse(html)
    assert len(tree.xpath("//script")) == 3 and len(tree.xpath("//template")) == 1
    assert not tree.xpath("//img | //iframe | //object | //@*[starts-with(name(), 'on')] | //@style")
    assert not tree.xpath("//a[not(starts-with(@href, '#'))]")
    assert tree.find("head/title").text.startswith(ATTACK)
    assert set(tree.xpath("string(//template)").split()) == {"no", "value", "A1", "B1"}
    assert "\ud800" not in html and "\x00" not in html
    html.encode("utf-8")
    (raw,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert not set("<>&'") & set(raw) and data_of(html)["documents"]["a"]["labels"][0] == ATTACK
    policy = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    def hashed(element: Any) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()}'"

    scripts = tree.xpath("//script[not(@type)]")
    assert rules["default-src"] == "'none'" and "unsafe" not in policy
    assert rules["script-src"] == " ".join(map(hashed, scripts))
    assert rules["style-src"] == " ".join(map(hashed, tree.xpath("//style")))
    assert tree.xpath("//@src | //link/@href") == ["data:,"]
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
    assert not re.search(markup, scripts[-1].text)


@pytest.fixture(scope="module")
def comparison(tiny_encoder: Encoders) -> Comparison:
    """Two documents with several paragraphs in a section, each of several sentences, and their subtopics."""
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean", paragraph="blank_line")
    a = [
        Section(f"The tide turns the turbines. {ATTACK}\n\nA barrage costs money. Nobody pays.", heading="Power"),
        Section("Koji grows on rice. Rice is steamed for koji. Steamed rice cools.", heading="Rice"),
        Section("Birds feed on the mud. They leave in spring.", heading=ATTACK),
    ]
    b = [
        Section("Waders eat worms. In spring they fly north. Some stay.", heading="Birds"),
        Section(f"Clocks strike hours. Hours are kept.\n\n{ATTACK} The turbines turn.", heading="Works"),
    ]
    documents = Document("a", a, title="A"), Document("b", b, title="B")
    return encoder.compare(*documents, sentences=True, subtopics="words", cluster_size=3)


def test_alignments_are_those_of_the_comparison(comparison: Comparison, monkeypatch: Patch) -> None:
    html = comparison.to_html()
    panel = parse(html).get_element_by_id("panel-alignment")
    assert comparison.sentence_scores is not None and ATTACK not in html
    shown = {words(row.find("dt")): words(row.find("dd")) for row in panel.findall(".//dl/div")}
    assert shown == {name: f"{score:.3f}" for name, score in comparison.sentence_scores.items()}
    for direction in ("source", "candidate"):
        links = panel.xpath(f".//a[@data-direction='{direction}']")
        expected = [pair for pair in comparison.alignment().best() if pair.direction == direction]
        for link, pair in zip(links, expected, strict=True):
            assert (int(link.get("data-a")), int(link.get("data-b"))) == (pair.source, pair.candidate)
            assert f"{pair.score:.3f} adds {pair.contribution:.4f}" in words(link).replace("−", "-")
            assert f"{len(pair.sentences)} sentence pair" in words(link)
    data = data_of(html)
    added = sum(one[3] for pair in data["alignment"] for one in pair["sentences"])
    assert added == pytest.approx(comparison.sentence_scores["sentences"], abs=1e-5)
    for side, encoded in (("a", comparison.a), ("b", comparison.b)):
        assert encoded.sentence_set is not None
        assert data["documents"][side]["paragraphs"] == list(
            map(list, pairwise(encoded.sentence_set.paragraphs.tolist()))
        )
    monkeypatch.setattr(content, "LISTED_SENTENCES", 1)
    monkeypatch.setattr(content, "LISTED_MATCHES", 2)
    cut = data_of(comparison.to_html())["alignment"]
    assert len(cut) == 4 and all(len(pair["sentences"]) == 1 for pair in cut)
    assert max(pair["total"] for pair in cut) > 1


def test_subtopics_are_those_of_the_comparison(comparison: Comparison) -> None:
    table, html = comparison.subtopics, comparison.to_html()
    assert table is not None
    buttons = parse(html).xpath("//button[contains(@class, 'subtopic')]")
    assert [int(button.get("data-subtopic")) for button in buttons] == [row.number for row in table.rows]
    for button, row in zip(buttons, table.rows, strict=True):
        text = words(button)
        assert ", ".join(row.words) in text and (f"A {len(row.a)} sentence" in text) == bool(row.a)
        assert (f"B {len(row.b)} sentence" in text) == bool(row.b)
        assert ("mean similarity" in text) == (row.similarity is not None)
    subtopics = data_of(html)["subtopics"]
    assert [subtopics[side] for side in "ab"] == [side.tolist() for side in table.subtopics.sides]
    assert subtopics["alone"] == [row.number for row in table.rows if row.holder != "both"]
    payload = json.loads(comparison.to_json())
    payload["subtopics"]["rows"][0]["words"] = ["<img src=x onerror=window.attacked=1>", "</script>"]
    attacked = parse(render_report(payload))
    assert not attacked.xpath("//img") and "<img src=x" in words(attacked.xpath("//button[@data-subtopic]")[0])
