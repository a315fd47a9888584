from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import lxml.html
import numpy as np
import pytest
from comparison_payload import ATTACK, make_attack, make_payload

from graphdoc.analysis.report import content as report_content
from graphdoc.analysis.report.page import render_report
from graphdoc.errors import OutputError
from graphdoc.runtime.files import write_text


def parse(page: str) -> Any:
    return lxml.html.document_fromstring(page)


def data_of(page: str) -> dict[str, Any]:
    return json.loads(parse(page).get_element_by_id("data").text)


def unpack(packed: dict[str, Any], rows: int) -> np.ndarray:
    cells = np.frombuffer(base64.b64decode(packed["values"]), dtype="<i2").astype(float)
    return np.where(cells == -32_768, np.nan, cells * packed["step"]).reshape(rows, -1)


def words(element: Any) -> str:
    return " ".join(element.text_content().split())


def listed_pairs(tree: Any, level: str) -> list[Any]:
    return tree.xpath(f"//*[@data-matches='{level}']//a[@class='pair']")


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    return make_payload()


@pytest.fixture(scope="module")
def page(payload: dict[str, Any]) -> str:
    return render_report(payload)


def test_scores_titles_model_and_texts_stand_in_the_page_without_a_script(page: str, payload: dict[str, Any]) -> None:
    tree = parse(page)
    head = words(tree.find_class("masthead")[0])
    assert payload["a"]["title"] in head
    assert payload["b"]["title"] in head
    assert f"{payload['document']:.3f}" in head
    assert "mini" in head and "Cosine" in head
    for letter in "ab":
        for number, passage in enumerate(payload[letter]["passages"], start=1):
            shown = tree.get_element_by_id(f"{letter}-p{number}").find("p").text_content()
            assert shown == passage["text"]
        headings = [
            words(heading)
            for heading in tree.xpath(f"id('pane-{letter}')//section//*[starts-with(@class, 'heading')]")
        ]
        assert headings == [section["heading"] for section in payload[letter]["sections"]]


def test_parents_without_text_show_as_headings_once_per_opening(page: str) -> None:
    ancestors = parse(page).xpath("id('pane-a')//*[starts-with(@class, 'heading ancestor')]")
    assert [words(heading) for heading in ancestors] == ["The wider picture"]


def test_sections_without_heading_are_called_as_on_the_terminal() -> None:
    payload = make_payload(passages=(3, 2), sections=(3, 1))
    for side in ("a", "b"):
        payload["coverage"][side]["empty_sections"] = 0
        for section in payload[side]["sections"]:
            section.update(heading="", path=[])
    labels = {
        letter: [section["label"] for section in report_content.read_side(letter, payload, {})["sections"]]
        for letter in "AB"
    }
    assert labels == {"A": ["Opening", "Without heading", "Without heading"], "B": ["Whole text"]}
    payload["coverage"]["b"]["left_out"] = {"passage limit": 9}
    assert report_content.read_side("B", payload, {})["sections"][0]["label"] == "Opening"


def test_matches_link_to_the_passages_they_name(page: str, payload: dict[str, Any]) -> None:
    tree = parse(page)
    links = listed_pairs(tree, "passages")
    assert len(links) == len(payload["matches"]["passages"])
    for link, match in zip(links, payload["matches"]["passages"], strict=True):
        assert (link.get("data-a"), link.get("data-b")) == (str(match["a"]), str(match["b"]))
        assert link.get("href") == f"#a-p{match['a'] + 1}"
        assert f"{match['score']:.3f}".replace("-", "−") in words(link)
    anchors = {element.get("id") for element in tree.iter() if element.get("id")}
    assert all(link.get("href")[1:] in anchors for link in tree.xpath("//a[starts-with(@href, '#')]"))


def test_every_section_is_listed_with_its_closest_section(page: str, payload: dict[str, Any]) -> None:
    rows = parse(page).xpath("(//table)[1]/tbody/tr[not(@class)]")
    scores = np.array(payload["sections"])
    assert len(rows) == len(scores)
    for row, values in zip(rows, scores, strict=True):
        assert f"B{values.argmax() + 1}" in words(row.find("td"))
        assert f"{values.max():.3f}" in words(row)


def test_matrices_survive_packing(page: str, payload: dict[str, Any]) -> None:
    for name, level in data_of(page)["levels"].items():
        exact = np.array(payload[name])
        np.testing.assert_allclose(unpack(level["similarity"], len(exact)), exact, atol=5.1e-5)
        parts = unpack(level["contribution"], len(exact))
        np.testing.assert_allclose(parts, payload["contributions"][name], atol=np.abs(parts).max() / 30_000)
        assert parts.sum() == pytest.approx(payload["document"], abs=1e-3)


def test_scores_beyond_the_range_of_cosine_survive_packing() -> None:
    payload = make_payload()
    payload["passages"] = (1000 * np.array(payload["passages"])).tolist()
    payload["model"]["similarity"] = "dot"
    page = render_report(payload)
    shown = unpack(data_of(page)["levels"]["passages"]["similarity"], len(payload["passages"]))
    np.testing.assert_allclose(shown, payload["passages"], atol=np.abs(shown).max() / 30_000)
    assert "no fixed scale" in page


def test_cells_without_value_stay_without_value() -> None:
    payload = make_payload()
    payload["passages"][2] = [None] * len(payload["passages"][2])
    payload["passages"][0][0] = float("nan")
    payload["document"] = None
    page = render_report(payload)
    shown = unpack(data_of(page)["levels"]["passages"]["similarity"], len(payload["passages"]))
    assert np.isnan(shown[2]).all() and np.isnan(shown[0, 0])
    assert np.isnan(shown).sum() == shown.shape[1] + 1
    assert "no value" in words(parse(page).find_class("document-score")[0])


def test_a_document_within_itself_has_no_diagonal_and_each_pair_once() -> None:
    payload = make_payload(passages=(9, 9), sections=(3, 3), within=True)
    payload["matches"]["passages"] = [
        {"a": a, "b": b, "score": 0.5, "contribution": 0.1} for a, b in ((1, 2), (2, 1), (3, 3), (0, 4))
    ]
    page = render_report(payload)
    shown = unpack(data_of(page)["levels"]["passages"]["similarity"], 9)
    assert np.isnan(np.diag(shown)).all() and np.isnan(shown).sum() == 9
    links = listed_pairs(parse(page), "passages")
    assert [(link.get("data-a"), link.get("data-b")) for link in links] == [("1", "2"), ("0", "4")]
    assert "the 36 pairs of passages" in page


def test_what_was_left_out_is_said_at_the_top() -> None:
    payload = make_payload()
    payload["coverage"]["b"].update(passages=61, left_out={"passage limit": 5120}, split_sentences=2)
    tree = parse(render_report(payload))
    notice = words(tree.find_class("masthead")[0].xpath("p[@class='notice']")[-1])
    assert "11 of 61 passages encoded" in notice
    assert "5,120 characters left out (passage limit)" in notice
    assert "2 sentences longer than the encoder’s limit" in words(tree.find_class("coverage")[0])


def test_a_document_compared_in_full_gets_no_warning(page: str) -> None:
    notices = [words(notice) for notice in parse(page).find_class("notice")]
    assert not any("left out" in notice or "in full" in notice for notice in notices)


def test_an_untrained_model_is_called_untrained() -> None:
    payload = make_payload()
    payload["model"]["trained"] = False
    assert "has not been trained" in words(parse(render_report(payload)).find_class("masthead")[0])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"readout": "mean", "graph_layers": 0, "graph_kind": "full"}, ", mean readout, no graph layers"),
        ({"readout": "document_node", "graph_layers": 2, "graph_kind": "full"}, ", document node readout, full graph"),
        # The graph has no part in these scores.
        ({"readout": "initial_mean", "graph_layers": 2, "graph_kind": "full"}, ", mean before the graph"),
    ],
)
def test_what_made_the_scores_is_said_at_both_ends(settings: dict[str, Any], told: str) -> None:
    payload = make_payload()
    payload["model"].update(settings, name="mini", pooling="mean")
    tree = parse(render_report(payload))
    (line,), (footer,) = tree.find_class("model-line"), tree.find_class("colophon")
    assert words(line) == f"Compared with mini, mean pooling{told}"
    assert f"; model mini{told}, " in words(footer)


def test_sentences_are_marked_inside_their_passages() -> None:
    payload = make_payload(sentences=True)
    tree = parse(render_report(payload))
    for letter in "ab":
        spans = tree.xpath(f"id('pane-{letter}')//*[@data-sentence]")
        assert [span.text for span in spans] == [sentence["text"] for sentence in payload[letter]["sentences"]]
        for passage in payload[letter]["sentences"][:3]:
            passage.pop("passage")
    assert render_report(payload) == render_report(make_payload(sentences=True))


def test_a_sentence_map_too_large_for_the_file_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = make_payload(sentences=True)
    monkeypatch.setattr(report_content, "MAP_CELLS", 10)
    page = render_report(payload)
    assert "sentences" not in data_of(page)["levels"]
    assert "too many for this file" in page
    assert listed_pairs(parse(page), "sentences")


def test_attacks_are_text_and_nothing_else() -> None:
    payload = make_attack()
    page = render_report(payload)
    tree = parse(page)
    assert len(tree.xpath("//script")) == 3
    assert not tree.xpath(
        "//img | //iframe | //object | //@*[starts-with(name(), 'on')] | //a[not(starts-with(@href, '#'))]"
    )
    assert tree.find("head/title").text.startswith(ATTACK)
    assert "\ud800" not in page and "\x00" not in page
    page.encode("utf-8")
    raw = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert raw is not None
    assert not set("<>&\u2028\u2029") & set(raw.group(1))
    assert data_of(page)["documents"]["a"]["labels"][0] == ATTACK


def test_the_policy_allows_the_scripts_and_styles_of_the_page_and_no_other(page: str) -> None:
    tree = parse(page)
    policy = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy

    def hashed(element: Any) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()}'"

    scripts = tree.xpath("//script[not(@type)]")
    assert rules["script-src"] == " ".join(hashed(script) for script in scripts)
    assert rules["style-src"] == " ".join(hashed(style) for style in tree.xpath("//style"))
    assert not tree.xpath("//@style")
    assert tree.xpath("//@src | //link/@href") == ["data:,"]
    assert "://" not in page.replace("http://www.w3.org", "")


def test_scripts_never_parse_text_as_markup(page: str) -> None:
    script = parse(page).xpath("//script[not(@type)]")[-1].text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)


@pytest.mark.parametrize(("passages", "sections"), [((1, 1), (1, 1)), ((1, 9), (1, 9)), ((40, 40), (40, 40))])
def test_any_shape_is_shown(passages: tuple[int, int], sections: tuple[int, int]) -> None:
    tree = parse(render_report(make_payload(passages=passages, sections=sections)))
    assert len(tree.get_element_by_id("pane-a").find_class("passage")) == passages[0]
    assert len(tree.get_element_by_id("pane-b").find_class("part")) == sections[1]


def test_ninety_thousand_cells_fit_in_a_small_file() -> None:
    page = render_report(make_payload(passages=(300, 300), sections=(30, 30), words=100))
    assert len(page.encode("utf-8")) < 5_000_000


def test_the_file_is_written_whole_and_replaces_an_older_one(tmp_path: Path, payload: dict[str, Any]) -> None:
    target = tmp_path / "new folder" / "report.html"
    for _ in range(2):
        assert write_text(target, render_report(payload)) == target
    assert target.read_text(encoding="utf-8") == render_report(payload)
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path: Path, payload: dict[str, Any]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"report\.html") as error:
        write_text(tmp_path / "file" / "report.html", render_report(payload))
    assert "\n" not in str(error.value)


def test_a_payload_of_another_kind_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(OutputError, match=r"graphdoc\.comparison/1"):
        render_report({**payload, "format": "graphdoc.comparison/9"})
    with pytest.raises(OutputError, match=r"passages .* shape"):
        render_report({**payload, "passages": payload["passages"][1:]})
    with pytest.raises(OutputError, match="no matrix"):
        render_report({**payload, "sections": [[0.1], [0.2, 0.3]]})
