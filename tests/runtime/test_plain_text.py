from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from graphdoc.runtime.plain_text import class_name, markdown, one_line


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
