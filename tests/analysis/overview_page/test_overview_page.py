"""The page of an overview as text: what is in it, how large it is, and that nothing breaks out of it."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import lxml.html
import numpy as np
import pytest
from collections_of_topics import make_overview
from comparison_payload import ATTACK

from graphdoc.analysis.overview_page.page import lists_of, page_data, render_overview
from graphdoc.errors import OutputError


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    return make_overview(12, group_size=6).to_dict()


def unpacked(text: str, kind: str) -> Any:
    return np.frombuffer(base64.b64decode(text), kind)


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return dict(json.loads(found))


def test_packed_numbers_are_those_of_the_overview(payload: dict[str, Any]) -> None:
    data = data_of(render_overview(payload))
    documents = payload["documents"]
    assert data["titles"] == [one["title"] for one in documents]
    for axis in "xy":
        found = unpacked(data[axis], "<u2") / 32767.5 - 1
        assert found.tolist() == pytest.approx([one[axis] for one in documents], abs=3e-5)
    assert unpacked(data["group"], "<i2").tolist() == [(one["group"] or 0) - 1 for one in documents]
    near = data["neighbours"]
    rows = unpacked(near["rows"], "<u4").reshape(-1, near["width"])
    scores = unpacked(near["scores"], "<i2").reshape(-1, near["width"])
    for row, one in enumerate(documents):
        assert rows[row].tolist() == [other["document"] for other in one["neighbours"]]
        assert (scores[row] / 1e4).tolist() == pytest.approx([other["score"] for other in one["neighbours"]], abs=1e-4)
    words = data["words"]
    ends = np.cumsum(unpacked(words["counts"], "<u2"))
    telling = [[words["list"][place] for place in own] for own in np.split(unpacked(words["places"], "<u4"), ends[:-1])]
    assert telling == [one["keywords"] for one in documents]


def test_fields_are_those_that_documents_share(payload: dict[str, Any]) -> None:
    fields = {field["name"]: field for field in data_of(render_overview(payload))["fields"]}
    assert list(fields) == ["label", "date", "folder", "kind"]
    assert fields["kind"]["list"] == ["even", "odd"] and fields["kind"]["counts"] == [24, 24]
    codes = unpacked(fields["kind"]["values"], "<u2")
    kinds = [one["metadata"]["kind"] for one in payload["documents"]]
    assert [fields["kind"]["list"][code] for code in codes] == kinds
    assert unpacked(fields["date"]["values"], "<u4")[0] / 1000 == pytest.approx(1990 + 4 / 12, abs=1e-3)
    # One document of each group in each of twelve years.
    listed = lists_of(payload, {})
    assert listed["period"] == "1990-05-01 to 2001-05-04"
    assert [group["over_time"].count("v-100") for group in listed["groups"]] == [12] * 4
    quarters = [one | {"date": f"20{14 + at % 4}-0{1 + at % 9}"} for at, one in enumerate(payload["documents"])]
    assert lists_of(payload | {"documents": quarters}, {})["groups"][0]["over_time"].count("h5.3") > 4
    undated = payload | {"documents": [one | {"date": None} for one in payload["documents"]]}
    assert lists_of(undated, {})["period"] == "" and "<path" not in render_overview(undated).split("panel-groups")[2]


def test_reports_are_linked(payload: dict[str, Any]) -> None:
    data = page_data(payload, {(1, 2): "overview-reports/0001.html", (3, 4): "javascript:alert(1)"})
    assert data["reports"] == [[1, 2, "overview-reports/0001.html"]]
    first = payload["pairs"][0]
    listed = lists_of(payload, {(first["a"], first["b"]): "r/1.html"})["pairs"]
    assert [pair["link"] for pair in listed[:2]] == ["r/1.html", None]


def test_attacks_stay_text() -> None:
    ids = {"tides/000": ATTACK * 40, "tides/001": "\u202e\u05e9\u05dc\u05d5\u05dd</script>", "tides/002": "x" * 10_000}
    page = render_overview(make_overview(6, titles=ids).to_dict(), name=ATTACK)
    data = data_of(page)
    assert page.count("<script") == 3 and page.count("</script>") == 3
    assert max(map(len, data["titles"])) <= 160
    tree = lxml.html.fromstring(page)
    elements = {element.tag for element in tree.iter() if isinstance(element.tag, str)}
    assert "a" in elements and not elements & {"img", "iframe", "object", "embed"}
    assert not [name for element in tree.iter() for name in element.attrib if name.startswith("on")]
    assert "\u202e" not in page


def test_what_repeats_and_what_was_not_read_whole(payload: dict[str, Any]) -> None:
    passages = [
        {"text": f"{ATTACK} {number} " * 40, "documents": 3_000 - number, "occurrences": 1, "characters": 70_000}
        | {"examples": [number % 3]}
        for number in range(130)
    ]
    repeats = {"documents": 4_321, "kept": 1, "characters": 9_100_000, "passages": passages}
    page = render_overview(payload | {"repeats": repeats})
    panel = lxml.html.fromstring(page).get_element_by_id("panel-repeats")
    rows = [[" ".join(cell.text_content().split()) for cell in row] for row in panel.xpath(".//tbody/tr")]
    assert len(rows) == 100 and [row[1] for row in rows[:2]] == ["3,000", "2,999"] and rows[0][2] == "70,000"
    assert all("<script>" in row[0] and len(row[0]) < 450 for row in rows)
    assert rows[1][0].endswith(payload["documents"][1]["title"]) and page.count("<script") == 3
    for part in ("4,321 documents", "130 passages", "9,100,000 characters", "1 document of little else", "30 more"):
        assert part in panel.text_content()
    unknown = lxml.html.fromstring(render_overview(payload | {"repeats": None}))
    assert "not known" in unknown.get_element_by_id("panel-repeats").text_content()
    # Where nothing repeats nothing is said of it, and what was not read whole is said.
    nothing = lxml.html.fromstring(render_overview(payload))
    assert not nothing.xpath("//*[@id='panel-repeats' or @id='tab-repeats']") and not nothing.find_class("not-whole")
    cut = lxml.html.fromstring(render_overview(payload | {"not_whole": "3 of 12 documents"}))
    assert "3 of 12" in cut.find_class("not-whole")[0].text_content()


def test_another_format_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(OutputError, match=r"graphdoc\.overview/2"):
        render_overview(payload | {"format": "graphdoc.overview/2"})


@pytest.mark.parametrize("count", [4_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_page_of_many_documents_is_small(payload: dict[str, Any], count: int) -> None:
    """The largest that a document can be in the page."""
    letter, one = "\u6f6e", payload["documents"][0]
    near = [{"document": number, "score": 0.5} for number in range(10)]
    telling = [f"{letter * 6}{number}" for number in range(16)]
    document = one | {"title": letter * 500, "opening": letter * 280, "neighbours": near, "keywords": telling}
    large = payload | {"documents": [document | {"id": f"{letter * 60}{number}"} for number in range(count)]}
    assert len(render_overview(large).encode()) < 15e6
