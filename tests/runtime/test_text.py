from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tqdm.auto import tqdm

from graphdoc.documents.document import Document
from graphdoc.runtime.progress import PartProgress
from graphdoc.runtime.text import class_name, counted, markdown, one_line, section_name


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    shown = MarkdownIt().enable("table").parseInline("x " + markdown(text))[0].children or []
    assert {token.type for token in shown} <= {"text", "text_special"}
    assert " ".join("".join(token.content for token in shown).split()) == f"x {one_line(text)}".rstrip()


def test_names_and_counts() -> None:
    page = MarkdownIt().enable("table").render(f"| a |\n|---|\n| {markdown('x | <b>y</b> *z*')} |\n")
    assert "<td>x | &lt;b&gt;y&lt;/b&gt; *z*</td>" in page and markdown("abcdef*", 4) == "abc…"
    # As one file system and another write the folder of a class.
    assert class_name("e\u0301tude") == class_name("\u00e9tude") == "\u00e9tude"
    names = {" comp.\n graphics\t": "comp. graphics", "<b>a</b> | \u200b": "<b>a</b> | \u200b", 7: "7", "a\ud800": "a?"}
    assert {given: class_name(given) for given in names} == names
    assert [counted(count, "section") for count in (0, 1, 3000)] == ["0 sections", "1 section", "3,000 sections"]
    assert [counted(count, "query") for count in (0, 1, 3000)] == ["0 queries", "1 query", "3,000 queries"]
    document = Document.from_markdown("Words.\n\n# Salt\n\nMore.\n\n# Air\n\nMore.")
    assert [document.section_name(number) for number in range(3)] == ["Opening", "Salt", "Air"]
    assert [Document.from_text("Salt").section_name(0), section_name("", 1, 2)] == ["Whole text", "Without heading"]


def test_bars_advance_by_whole_documents_and_show_parts_of_a_long_one() -> None:
    shown = io.StringIO()
    with tqdm(total=1, file=shown, mininterval=0) as bar:
        bar.last_print_t = 0
        parts = PartProgress(bar, 1, 3_000, "sentences")
        parts(1_200)
        assert "1,200 of 3,000 sentences" in shown.getvalue() and bar.n == 0
        parts(1_800)
    assert bar.n == 1 and "of 3,000" not in shown.getvalue().rpartition("\r")[2]
    with tqdm(total=4, file=io.StringIO()) as bar:
        parts = PartProgress(bar, 4, 10, "passages")
        for done, whole in ((3, 1), (4, 2), (1, 3), (2, 4)):
            parts(done)
            assert bar.n == whole
    for hidden in (None, tqdm(total=1, disable=True)):
        PartProgress(hidden, 1, 2, "passages")(1)
