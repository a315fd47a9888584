from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.markdown import parse_markdown
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError


def outline(text: str) -> list[tuple[int, tuple[str, ...], str]]:
    return [(section.level, section.path, section.text) for section in parse_markdown(text).sections]


def test_opening_heading_is_the_title_and_the_rest_keeps_level_and_path() -> None:
    parsed = parse_markdown("# T\n\nIntro.\n\n## A\n\n### B\n\nb\n\n#### C\n\nc\n\n## D\n\nd")
    assert parsed.title == "T"
    inner = Section("", "A", 2, ("A",)), Section("b", "B", 3, ("A", "B")), Section("c", "C", 4, ("A", "B", "C"))
    assert parsed.sections == (Section("Intro."), *inner, Section("d", "D", 2, ("D",)))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("A [link](http://x 'y'), **bold** _it_, `co_de`, ![alt *t*](i.png), <http://z>, "
         "&amp; \\* a<br>b ~~c~~<!-- d -->",
         [(1, (), "A link, bold it, co_de, alt t, http://z, & * a\nb c")]),
        ("- one\n- two\n  1. inner\n\n     more\n\nafter\n\n| a | b |\n|---|---|\n| *c* | d |\n\nend",
         [(1, (), "one\ntwo\ninner\nmore\n\nafter\n\na\tb\nc\td\n\nend")]),
        ("one\ntwo  \nthree\n\nfour", [(1, (), "one\ntwo\nthree\n\nfour")]),
        ("## A\n\n> # Q\n>\n> q\n\n- # L\n", [(2, ("A",), "Q\n\nq\n\nL")]),
        ("A\nlong *one*\n---\na\n\n##\n\nb\n\n### C ###\nc",
         [(2, ("A long one",), "a\n\nb"), (3, ("A long one", "C"), "c")]),
        ("> " * 90 + "deep", [(1, (), "deep")]), ("# A\n\na\n\n# B\n\nb", [(1, ("A",), "a"), (1, ("B",), "b")]),
        ("Before.\n\n# A\n\na\n\n## B\n\nb", [(1, (), "Before."), (1, ("A",), "a"), (2, ("A", "B"), "b")]),
        ("## A\n\n```python\n# no heading\n\nx = *1*\n```\n\n    # indented\n\n~~~\n## no\n~~~",
         [(2, ("A",), "# no heading\n\nx = *1*\n\n# indented\n\n## no")]),
    ],
)  # fmt: skip
def test_inline_marks_blocks_and_headings(source: str, expected: list[tuple[int, tuple[str, ...], str]]) -> None:
    assert outline(source) == expected and parse_markdown(source).title == ""


@pytest.mark.parametrize("called", ["", "## Table of contents\n\n", "**Contents:**\n\n", "Contents\n---\n"])
@pytest.mark.parametrize("entry", ["- [{}](#a-b)", "  1. {}", "* 2. [{}](#c)"])
def test_lists_of_the_headings_are_left_out_and_counted(called: str, entry: str) -> None:
    names = ["Ebb", "`flood(x)`", "Spring tides", "A moon"]
    text = "\n\n".join(f"## {name}\n{'They rise. ' * 20}" for name in names)
    parsed = parse_markdown(f"# Tides\n\nIntro.\n\n{called}{chr(10).join(map(entry.format, names))}\n\n{text}")
    assert [one.heading for one in parsed.sections] == ["", "Ebb", "flood(x)", "Spring tides", "A moon"]
    assert parsed.sections[0].text == "Intro." and parsed.metadata == {"dropped_elements": {"table of contents": 4}}
    # What is no heading, or says more, is text.
    kept = parse_markdown(f"# Tides\n\n- Ebb\n- Rain\n- Spring tides come twice\n\n{text}")
    assert kept.sections[0].text == "Ebb\nRain\nSpring tides come twice" and not kept.metadata


def test_html_blocks_are_parsed() -> None:
    details = "<details>\n<summary>S</summary>\n\nInner.\n\n</details>"
    parsed = parse_markdown(f"<h1 align=left>T</h1>\n\n{details}\n\n<h2>A</h2>\n<script>x()</script>\n\na")
    assert parsed.title == "T" and parsed.sections == (Section("S\n\nInner."), Section("a", "A", 2, ("A",)))
    assert parsed.metadata == {"dropped_elements": {"script": 1}}


def test_front_matter_is_metadata() -> None:
    parsed = parse_markdown("---\ntitle: F\ntags: [a, b]\ndate: 2020-01-01\ndraft: no\n---\n# H\n\nText.")
    assert parsed.title == "F" and parsed.sections == (Section("Text."),)
    assert parsed.metadata == {"tags": ["a", "b"], "date": "2020-01-01", "draft": "no", "heading": "H"}


@pytest.mark.parametrize(
    "text", ["---\n[: bad\n---\nText.", "---\njust text\n---\nText.", "---\n" + "[" * 400 + "\n---\nText."]
)
def test_what_is_no_front_matter_is_text(text: str) -> None:
    assert "Text." in parse_markdown(text).sections[-1].text and parse_markdown(text).metadata == {}


NINE = "{name}: &{name} [{before}, {before}, {before}, {before}, {before}, {before}, {before}, {before}, {before}]\n"
BOMB = "".join(NINE.format(name=name, before=f"*{before}") for before, name in itertools.pairwise("abcdefg"))


@pytest.mark.parametrize(
    "front_matter",
    ["a: &a [x, x, x, x, x, x, x, x, x]\n" + BOMB, f"a: &a {'x' * 60_000}\nb: [{'*a, ' * 100}]\n", "a: &a [*a]\n"],
)
def test_front_matter_that_unfolds_without_end_is_kept_as_it_is_written(front_matter: str) -> None:
    """Nine aliases in each of six lines stand for five million values; the limit is that of settings."""
    document = Document.from_markdown(f"---\n{front_matter}---\n\n# Tides\n\nThey rise.")
    assert f"a: {document.metadata['a']}" == front_matter.partition("\n")[0] and document.metadata["warnings"]
    assert (document.title, document.text) == ("Tides", "They rise.")


@pytest.mark.parametrize("text", [">" * 5000 + "a", "* " * 3000 + "a", "> " * 150 + "a"])
def test_nesting_that_would_be_cut_is_an_error(text: str) -> None:
    with pytest.raises(DocumentError, match="nested deeper than 100 levels"):
        parse_markdown(text)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from("abc")), min_size=1))
def test_every_heading_ends_its_own_path(headings: list[tuple[int, str]]) -> None:
    text = "\n\n".join(f"{'#' * level} {name}\n\nx" for level, name in [(1, "z"), *headings, (1, "z")])
    sections = parse_markdown(text).sections
    assert [(section.level, section.heading) for section in sections[1:-1]] == headings
    assert all(section.path[-1] == section.heading and len(section.path) <= section.level for section in sections)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    Document.from_markdown(text, id="a")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("if a <b and c> d then List<String>, vec<T>", "if a <b and c> d then List<String>, vec<T>"),
        ("<String>\nAlpha", "<String> Alpha"), ("a <b>bold</b> <Custom>word</Custom> <br> b", "a bold word \n b"),
        ("|a|b|\n|-|-|\n|1|2|three|`4`|\n|x|\n", "a\tb\n1\t2\tthree\t4\nx"),
        ("<img src=x alt='A &amp; B'> and ![C *d*](e)", "A & B and C d"), ("<img src=x alt='Alone'>", "Alone"),
        ("A[^1] [^2].\n\n[^1]: http://b\n", "A [^2].\n\nhttp://b"),
        ("a <![CDATA[b]]> c", "a b c"), ("Alpha.\n\n> | a |\n> |---|\n> | 1 | 2 |\n", "Alpha.\n\na\n1\t2"),
    ],
)  # fmt: skip
def test_what_looks_like_markup_and_is_text_stays(source: str, text: str) -> None:
    assert "|".join(section.text for section in parse_markdown(source).sections) == text


def test_a_comment_without_end_does_not_swallow_the_rest() -> None:
    parsed = parse_markdown("Alpha.\n\n<!-- open\n\nBeta.\n\n# Gamma\n\nDelta <!-- again\n")
    found = [(section.heading, section.text) for section in parsed.sections]
    assert found == [("", "Alpha.\n\nopen\n\nBeta."), ("Gamma", "Delta  again")]
    assert len(parsed.metadata["warnings"]) == 1
    assert parse_markdown("<!--" * 20_000).metadata["warnings"]


@pytest.mark.parametrize(
    "picture", ["![Logo](x.png)", "[![Logo](b.svg)](https://example.org)", "<p align=center><img src=x alt=Logo></p>"]
)
def test_pictures_may_stand_before_the_title(picture: str) -> None:
    parsed = parse_markdown(f"{picture}\n\n# Tides\n\nThey rise.\n\n## Spring\n\nMore.")
    assert parsed.title == "Tides"
    found = [(section.heading, section.text) for section in parsed.sections]
    assert found == [("", "Logo\n\nThey rise."), ("Spring", "More.")]
    assert parse_markdown(f"Words. {picture}\n\n# Tides\n\nThey rise.").title == ""
    assert parse_markdown("# ![Logo](x.png) Tides [![Passing](b.svg)](z) <img src=x alt=Logo>").title == "Tides"
