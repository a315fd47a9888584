"""Chunkwise attention in the report: what its file holds."""

from __future__ import annotations

import base64
import json
from typing import Any

import lxml.html
import numpy as np
import pytest
from comparison_payload import make_attack, make_payload

from graphdoc.analysis.report import content as report_content
from graphdoc.analysis.report.page import render_report
from graphdoc.errors import OutputError

SHAPE = (14, 11)


def data_of(page: str) -> dict[str, Any]:
    return json.loads(lxml.html.document_fromstring(page).get_element_by_id("data").text)


def unpack(packed: dict[str, Any], shape: tuple[int, int] = SHAPE) -> np.ndarray:
    cells = np.frombuffer(base64.b64decode(packed["values"]), dtype="<i2").astype(float)
    return np.where(cells == -32_768, np.nan, cells * packed["step"]).reshape(shape)


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    return make_payload(attention_heads=3)


@pytest.fixture(scope="module")
def page(payload: dict[str, Any]) -> str:
    return render_report(payload)


def test_every_head_and_direction_survives_packing_rows_for_the_first_document(
    page: str, payload: dict[str, Any]
) -> None:
    found = data_of(page)["levels"]["passages"]["attention"]
    assert found["heads"] == 3 and len(found["to_b"]) == len(found["to_a"]) == 3
    for head in range(3):
        shown = unpack(found["to_b"][head])
        np.testing.assert_allclose(shown, payload["attention"]["a_to_b"][head], atol=4e-5)
        np.testing.assert_allclose(shown.sum(1), 1, atol=1e-3)
        np.testing.assert_allclose(unpack(found["to_a"][head]).T, payload["attention"]["b_to_a"][head], atol=4e-5)
    assert data_of(page)["levels"]["sections"]["attention"] is None


def test_models_without_attention_have_no_switch(page: str) -> None:
    without = render_report(make_payload())
    assert data_of(without)["levels"]["passages"]["attention"] is None
    for text in ('value="attention"', 'id="head"', 'name="direction"', "<strong>Attention</strong>", 'id="pair"'):
        assert text in page and text not in without
    assert render_report({**make_payload(), "attention": None}) == without


def test_one_head_leaves_nothing_to_choose() -> None:
    page = render_report(make_payload(attention_heads=1))
    assert 'value="attention"' in page and 'id="head"' not in page and "heads only" not in page


def test_more_cells_than_a_file_should_hold_leave_the_mean_and_say_so(
    payload: dict[str, Any], page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_content, "ATTENTION_CELLS", 2 * 3 * 14 * 11 - 1)
    smaller = render_report(payload)
    found = data_of(smaller)["levels"]["passages"]["attention"]
    assert found["heads"] == 3 and len(found["to_b"]) == len(found["to_a"]) == 1
    np.testing.assert_allclose(unpack(found["to_b"][0]), np.mean(payload["attention"]["a_to_b"], axis=0), atol=4e-5)
    assert "holds the mean of the 3 heads only" in smaller and "holds the mean" not in page
    assert 'id="head"' not in smaller
    monkeypatch.setattr(report_content, "ATTENTION_CELLS", 2 * 3 * 14 * 11)
    assert render_report(payload) == page


def test_four_heads_of_ninety_thousand_cells_fit_in_a_small_file() -> None:
    page = render_report(make_payload(passages=(300, 300), sections=(30, 30), words=100, attention_heads=4))
    assert len(data_of(page)["levels"]["passages"]["attention"]["to_b"]) == 4
    assert len(page.encode("utf-8")) < 5_000_000


def test_within_one_document_passages_that_cannot_see_each_other_have_no_value() -> None:
    payload = make_payload(passages=(9, 9), sections=(3, 3), within=True, attention_heads=2)
    page = render_report(payload)
    found = data_of(page)["levels"]["passages"]["attention"]
    assert "to_a" not in found and 'name="direction"' not in page and 'id="head"' in page
    weights = np.array(payload["attention"]["a"])
    assert (weights == 0).any()
    for head in range(2):
        shown = unpack(found["to_b"][head], (9, 9))
        np.testing.assert_array_equal(np.isnan(shown), weights[head] == 0)
        np.testing.assert_allclose(np.nan_to_num(shown), weights[head], atol=4e-5)


def test_attention_that_does_not_fit_its_documents_is_refused(payload: dict[str, Any]) -> None:
    turned = {**payload["attention"], "b_to_a": payload["attention"]["a_to_b"]}
    with pytest.raises(OutputError, match=r"the attention of the comparison have shape \(14, 11\)"):
        render_report({**payload, "attention": turned})


def test_the_template_of_a_pair_holds_no_text_of_a_document() -> None:
    tree = lxml.html.document_fromstring(render_report(make_attack(attention_heads=2)))
    assert len(tree.xpath("//script")) == 3 and len(tree.xpath("//template")) == 1
    assert set(tree.xpath("string(//template)").split()) == {"no", "value", "A1", "B1"}
