from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import unicodedata
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.rows import Columns
from graphdoc.documents.section import Section, clean_text, normalized
from graphdoc.errors import DocumentError


def test_text_is_one_section_that_keeps_its_paragraphs() -> None:
    document = Document.from_text("One.\ntwo\n\nThree.", id="a", title="T", label="x", metadata={"year": 2000})
    assert document == Document("a", (Section("One.\ntwo\n\nThree."),), "T", "x", {"year": 2000})
    assert document.text == "One.\ntwo\n\nThree."
    assert document.words == 3 and not document.is_empty
    parts = Document("a", (Section("One."), Section("", "Empty"), Section("Two three.", "B")))
    assert (parts.text, parts.words) == ("One.\n\nTwo three.", 3)
    assert Document("a", (Section(" \n\t", "Heading"),), title="Title").is_empty
    assert Document.from_text("Same text.").id == "354cc1b9fb35a517" != Document.from_text("Same text.", title="T").id


def test_every_way_to_make_a_document_cleans_it() -> None:
    section = Section("\ufeffa\r\nb\0\ud800", "h\r\nh", path=["h\udfff"])  # type: ignore[arg-type]
    assert (section.text, section.heading, section.path) == ("a\nb \ufffd", "h h", ("h\ufffd",))
    made = Document("i\ud800", [section], "t\nt", ["l\0"])  # type: ignore[arg-type]
    fields = {"id": "i\ud800", "sections": made.to_dict()["sections"], "title": "t\nt", "label": ["l\0"]}
    row = Document.from_mapping(fields)
    assert made == row == dataclasses.replace(made) == Document("i\ufffd", (section,), "t t", ("l ",))
    text = "\ufeffa\r\nb\0\ud800"
    assert Document.from_text(text, id="x") == Document("x", (Section(text),)) == Document.from_markdown(text, id="x")
    row = Document.from_mapping({"sections": [{"text": section.text, "heading": "h h"}]})
    assert row.id == Document("", (section,)).id


@given(st.text(st.characters(exclude_categories=[])))
def test_cleaned_text_can_be_encoded_and_stays_clean(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode("utf-8")
    assert not {"\0", "\r"} & set(cleaned) and clean_text(cleaned) == cleaned


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff")))
def test_clean_text_is_kept_but_for_its_form(text: str) -> None:
    document = Document.from_text(text, id="a")
    assert "".join(section.text for section in document.sections) == normalized(text) == normalized(normalized(text))
    # Only compatible forms of letters, and what is not seen, change.
    plain = re.sub("[\u2010\u2011]", "-", re.sub("[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff]", "", text))
    plain = re.sub("\u0131(?=[\u0300-\u036f])", "i", plain)
    assert unicodedata.normalize("NFKC", normalized(text)) == unicodedata.normalize("NFKC", plain)


def test_a_long_heading_is_not_copied_into_all_sections_below_it(tmp_path: Path) -> None:
    source = f"# {'Long heading ' * 800}\n\nText.\n\n" + "## Part\n\nText.\n\n" * 500 + "# Another\n\nText.\n"
    (tmp_path / "a.md").write_text(source)
    document = Document.from_file(tmp_path / "a.md")
    first, *parts, _ = document.sections
    assert len(first.heading) == 10_399 and len(parts) == 500
    assert {part.path for part in parts} == {(first.heading[:500].rstrip(), "Part")}
    assert first.path == parts[0].path[:1] and len({id(part.path[0]) for part in parts}) == 1
    assert len(pickle.dumps(document)) < 5 * len(source)
    assert Document.from_mapping(document.to_dict()).sections == document.sections


label_strategy = st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text(), max_size=3).map(tuple))
heading_strategy = st.text(max_size=8)
section_strategy = st.fixed_dictionaries(
    {"text": st.text(max_size=20)}, optional={"heading": heading_strategy, "level": st.integers(1, 6)}
)


@given(st.lists(section_strategy, max_size=6), st.text(min_size=1), st.text(), label_strategy)
def test_to_dict_reads_back(sections: list[dict[str, Any]], id: str, title: str, label: Any) -> None:
    row = {"id": id, "title": title, "label": label, "sections": sections, "year": 1, "metadata": {"a": [1]}}
    document = Document.from_mapping(row)
    assert Document.from_mapping(document.to_dict()) == document and document.metadata == {"year": 1, "a": (1,)}


def test_columns_can_be_named() -> None:
    columns = Columns(text="body", title="headline", id="key", label="class")
    row = {"body": "Words.", "headline": "T", "key": "k", "class": 2, "text": "other"}
    assert Document.from_mapping(row, columns=columns) == Document("k", (Section("Words."),), "T", 2, {"text": "other"})
    plain = Document.from_mapping({"_id": "C1", "title": "T", "text": "Words.", "label": ["a", "b"], "rating": 3})
    assert plain == Document("C1", (Section("Words."),), "T", ("a", "b"), {"rating": 3})
    assert Document.from_mapping({"id": "a", "_id": "b", "text": "x"}).metadata == {"_id": "b"}
    unknown = Document.from_mapping({"id": "a", "sections": [{"text": "x", "number": 1}]})
    assert unknown.metadata == {"ignored_section_keys": ("number",)}
    titled = Document.from_markdown("# Own\n\nText.", id="a", title="Given")
    assert (titled.title, titled.metadata) == ("Given", {"parsed_title": "Own"})


def test_sections_get_heading_paths_from_their_levels() -> None:
    levels = {"A": 1, "B": 2, "C": 4, "D": 2}
    sections: list[Any] = [{"heading": name, "text": None, "level": level} for name, level in levels.items()]
    document = Document.from_mapping({"id": "a", "sections": ["Lead.", *sections, {"heading": "E", "text": "e"}]})
    assert [(section.level, *section.path) for section in document.sections] == [
        (1,), (1, "A"), (2, "A", "B"), (4, "A", "B", "C"), (2, "A", "D"), (1, "E"),
    ]  # fmt: skip


def test_sections_count_before_text_which_is_kept() -> None:
    document = Document.from_mapping({"id": "a", "text": "All.", "sections": ["All."]})
    assert document.sections == (Section("All."),) and document.metadata == {"text": "All."}
    for shape in ('[{"heading": "A", "text": "a"}, "b"]', {"heading": ["A", None], "text": ["a", "b"]}):
        shaped = Document.from_mapping({"id": "a", "sections": shape})
        assert shaped.sections == (Section("a", "A", 1, ("A",)), Section("b"))
    labels = [Document.from_mapping({"text": "x", "label": label}).label for label in (2.0, 2.5, float("nan"), True)]
    assert labels == [2, "2.5", None, 1]
    assert Document.from_mapping({"id": "a", "text": "All.", "sections": []}).text == "All."


ITSELF: dict[str, Any] = {}
ITSELF["itself"] = ITSELF


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"body": "x"}, ["row 'r'", "'text'", "'sections'", "id, body"]), ({"text": None}, ["no value", "'text'"]),
        ({"text": 5}, ["'text'", "5 (int)"]), ({"id": ["r"], "text": "x"}, ["id", "['r'] (list)"]),
        ({"label": {}, "text": "x"}, ["label", "{} (dict)"]), ({"sections": "no json"}, ["sections", "JSON list"]),
        ({"sections": {"heading": "A", "text": "b"}}, ["sections", "list"]),
        ({"sections": ["a", {"title": "A"}]}, ["section 2", "'text'", "'heading'", "only title"]),
        ({"sections": [{"text": "a", "heading": 5}]}, ["section 1", "heading", "5 (int)"]),
        ({"sections": [{"text": "a", "level": 10**30}]}, ["section 1", "level", "10,000"]),
        ({"sections": [{"text": "a", "path": "A"}]}, ["section 1", "path", "'A' (str)"]),
        (lambda: Document(5, ()), ["id", "5 (int)"]), (lambda: Document("a", "text"), ["sections", "'text' (str)"]),
        (lambda: Document("a", ["text"]), ["section 1", "'text' (str)"]),
        (lambda: Document("a", (), label={1}), ["label", "{1} (set)"]),
        (lambda: Document("a", (), metadata=ITSELF), ["metadata", "nested"]),
        (lambda: Section(b"text"), ["text", "b'text' (bytes)"]),
        (lambda: Section("text", heading=None), ["heading", "None (NoneType)"]),
        (lambda: Section("text", level=True), ["level", "True (bool)"]),
        (lambda: Document.from_text(5, id="a"), ["document 'a'", "text", "5 (int)"]),
        (lambda: Document.from_html("x", title=5), ["title", "5 (int)"]),
        (lambda: Document.from_mapping("row"), ["row", "'row' (str)"]),
        (lambda: Document.from_file(""), ["path", "''"]),
    ],
)  # fmt: skip
def test_what_makes_no_document_is_named(given: Any, parts: list[str]) -> None:
    with pytest.raises(DocumentError) as caught:
        Document.from_mapping({"id": "r", **given}) if isinstance(given, dict) else given()
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert "\n" not in str(caught.value)


def test_documents_hash_copy_and_pickle() -> None:
    metadata = {"tags": ["a", {"deep": [1]}], "vector": np.arange(2), "parts": {"x"}, "when": date(2020, 1, 1)}
    document = Document("a", (Section("x"),), "T", ("l",), metadata)
    same = Document("a", [Section("x")], "T", ["l"], dict(reversed(metadata.items())))  # type: ignore[arg-type]
    assert document == same
    assert len({document, same, dataclasses.replace(document, metadata={"tags": ["b"]})}) == 2
    assert document != dataclasses.replace(document, label="l")
    for copied in (copy.copy(document), copy.deepcopy(document), pickle.loads(pickle.dumps(document))):
        assert copied == document and hash(copied) == hash(document)
    assert document.to_dict()["metadata"] == {**metadata, "vector": [0, 1]}
    metadata["tags"].append("b")  # type: ignore[attr-defined]
    assert document.metadata["tags"] == ("a", {"deep": (1,)})
    for change in (lambda m: m.update(a=1), lambda m: m.pop("tags"), lambda m: m["tags"][1].clear()):
        with pytest.raises(TypeError, match="metadata"):
            change(document.metadata)
