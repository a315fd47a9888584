from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from graphdoc.documents.document import Document
from graphdoc.runtime.text import class_name, counted, markdown, one_line, section_name


def test_the_name_of_a_class_is_on_one_line() -> None:
    assert class_name(" comp.\n graphics\t") == "comp. graphics"
    assert class_name("<b>a</b> | \u200b") == "<b>a</b> | \u200b"
    assert (class_name(7), class_name("7"), class_name(" \n")) == ("7", "7", "")
    assert class_name("a\ud800") == "a?"
    # As one file system and another write the folder of a class.
    assert class_name("e\u0301tude") == class_name("\u00e9tude") == "\u00e9tude"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    shown = MarkdownIt().enable("table").parseInline("x " + markdown(text))[0].children or []
    assert {token.type for token in shown} <= {"text", "text_special"}
    assert " ".join("".join(token.content for token in shown).split()) == f"x {one_line(text)}".rstrip()


def test_markdown_in_a_table() -> None:
    page = MarkdownIt().enable("table").render(f"| a |\n|---|\n| {markdown('x | <b>y</b> *z*')} |\n")
    assert "<td>x | &lt;b&gt;y&lt;/b&gt; *z*</td>" in page
    assert markdown("abcdef*", 4) == "abc…"


def test_counts() -> None:
    assert [counted(count, "section") for count in (0, 1, 3000)] == ["0 sections", "1 section", "3,000 sections"]


def test_names_of_sections() -> None:
    assert section_name("Salt", 0, 1) == "Salt"
    assert Document.from_text("Some words.").section_name(0) == "Whole text"
    document = Document.from_markdown("Words.\n\n# Salt\n\nMore.\n\n# Air\n\nMore.")
    assert [document.section_name(number) for number in range(3)] == ["Opening", "Salt", "Air"]
    assert section_name("", 1, 2) == "Without heading"
