from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.html import parse_html
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError

XHTML = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head>%s</html>'
BEES = "The keeper counts the honey of each hive in a table, and so no bee is lost. " * 3 + "So."


def text_of(html: str) -> str:
    return "|".join(section.text for section in parse_html(html).sections)


def test_title_levels_and_paths() -> None:
    parsed = parse_html(
        "<!DOCTYPE html><html><head><title>Page</title></head><body><header><h1>The\n Title <img alt=l></h1></header>"
        "<p>Intro.<section><h2><a><img alt=icon></a>A</h2><p>a</p><h3>B <em>b</em></h3><p>b</p></section>"
        "<h2><img alt=C></h2></body></html>"
    )
    assert parsed.title == "The Title" and parsed.metadata == {"page_title": "Page"}
    inner = Section("a", "A", 2, ("A",)), Section("b", "B b", 3, ("A", "B b")), Section("", "C", 2, ("C",))
    assert parsed.sections == (Section("Intro."), *inner)


def test_what_is_no_text_is_dropped_and_counted() -> None:
    parsed = parse_html(
        "<nav><h1>Menu</h1></nav><p>a<script>bad()</script>b<style>p{}</style><noscript>no</noscript></p>"
        "<template><p>t</p></template><svg><title>s</title><text>v</text></svg><!-- c --><p>c</p><script>x</script>"
    )
    assert [section.text for section in parsed.sections] == ["ab\n\nc"] and parsed.title == ""
    left_out = {"nav": 1, "noscript": 1, "script": 2, "style": 1, "svg": 1, "template": 1}
    assert parsed.metadata == {"dropped_elements": left_out, "furniture_characters": len("Menu") + len("no")}


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p> a\n  b&amp;c &lt;i&gt; &eacute;&#8364;&nbsp;d <b> e </b>f</p>", "a b&c <i> é€\xa0d e f"),
        ("<div>a<div>b</div>c</div><ul><li>d<li><p>e</p><ul><li>f</ul></ul>g", "a\n\nb\n\nc\n\nd\ne\nf\n\ng"),
        ("g<br>h<br><br>i<hr>j", "g\nh\n\ni\n\nj"),
        ("<table><tr><th>a<th>b</tr><tr><td><p>c</p><td><div>d</div><p>e</p></table>f", "a\tb\nc\td\ne\n\nf"),
        ("<table><tr><td><h2>A</h2><p>a</p></td><td><h2>B</h2>b</td></tr></table>", "a|b"),
        ("<p>a</p><pre>\n  x\n\n    <b>y</b> z\n</pre><p>b</p>", "a\n\n  x\n\n    y z\n\nb"),
        (XHTML % "<p>a<p>b&nbsp;c", "a\n\nb\xa0c"), ("<pre>a\n<h2>A</h2>b\n  c</pre>", "a|b\n  c"),
        ("<h2>A</h2><blockquote><h2>Q</h2>q</blockquote>", "Q\n\nq"),
        ("<h2>A</h2><div class=tip><h3 class=title>Tip</h3><p>b</p></div><p>c</p>", "Tip\n\nb\n\nc"),
        ("<html><body><p>a</p></body></html><p>b</p></html><html><body>c</body></html>", "a\n\nb\n\nc"),
        ('<p>See <img src="x.png" alt="a heat map">here<img src="y.png"> <img alt=I>t.', "See a heat map here It."),
        ("<p>a <math><mi>x</mi><annotation>x</annotation></math><nobr aria-hidden=true>c", "a x"),
        ("<frameset><frame src=//x/y><noframes>No frames here.</noframes></frameset>", "No frames here."),
        ("<title>Page</title><p>Before.</p><h1>One</h1><p>x</p>", "Before.|x"), ("<script>x</script>", ""),
        ("<html><head><title>Page<meta charset=utf-8><title></head><body><p>a</p>", "a"),
        # XHTML is read as XML where it is well-formed.
        (XHTML % "<h2>A</h2><p><a id='x'/>a</p><script src='x'/><p>b</p>", "a\n\nb"),
        ("<p>a</p><!-- closed --><p>b</p><!-- open <h2>c</h2><p>d</p><!-- f><!-- e", "a\n\nb\n\nopen|d\n\ne"),
    ],
)  # fmt: skip
def test_blocks_lines_cells_and_breaks(html: str, text: str) -> None:
    assert text_of(html) == text


def test_deep_nesting_and_very_many_attributes_are_read_whole_or_refused() -> None:
    deep = "<div>{}deep{}<p>after</p>"
    assert text_of(deep.format("<div>" * 1500, "</div>" * 1500)) == "deep\n\nafter"
    for depth in (2100, 10_000, 100_000):
        with pytest.raises(DocumentError, match="nested deeper than 2000 levels"):
            parse_html(deep.format("<div>" * depth, "</div>" * depth))
    with pytest.raises(DocumentError, match="<p>"):
        parse_html("<p " + " ".join(f"a{number}='>'" for number in range(100_000)) + ">x</p>")
    assert text_of("<p " + " ".join(f"a{number}=1" for number in range(1_000)) + ">x</p>") == "x"
    # Values and text that are long are neither.
    assert text_of(f"<p title='{'a = b ' * 20_000}'>x</p>") == "x"


PAGES = {
    "mdbook": (
        "Sowing",
        [("", "Sow in spring, when the soil is warm."),
         ("Depth", "A seed lies twice as deep as it is thick.\n\nbeans  4 cm\ncress  0 cm")],
        {"div": 1, "nav": 2, "script": 1},
    ),
    "sphinx": (
        "Sowing", [("", "Sow in spring[1]."), ("Depth", "sow(seed)[source]\nPut a seed into the soil.")],
        {"div": 1, "nav": 2, "permalink": 3},
    ),
    "rustdoc": (
        "Crate garden", [("Sowing", "Sow in spring."), ("Structs", "Seed\nA seed.")],
        {"heading-button": 1, "hidden": 1, "nav": 2, "permalink": 2, "source-link": 1},
    ),
    "mkdocs": (
        "Sowing", [("", "Sow in spring."), ("Depth", "The volume is V.")],
        {"hidden": 2, "nav": 2, "page-footer": 1, "permalink": 2},
    ),
}  # fmt: skip
TAGS = ["<p>", "</p>", "<td>", "<tr>", "<li>", "</ul>", "<h2>", "</h2>", "<pre>", "a", " ", "\n", "<br>"]


@pytest.mark.parametrize("name", PAGES)
def test_pages_of_documentation_are_read_without_what_surrounds_them(name: str) -> None:
    document = Document.from_file(Path(__file__).parent / "pages" / f"{name}.html")
    shown = [(section.heading, section.text) for section in document.sections]
    assert (document.title, shown, document.metadata["dropped_elements"]) == PAGES[name]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>out</p><main><p>in</p></main><main hidden><p>other</p></main>", "in"),
        ("<p>out</p><main> </main><article>in it is all</article>", "in it is all"),
        ("<header>out</header><article>in, and <article>inner</article></article>", "in, and|inner"),
        ("<p>in</p><article>a</article><article>b</article>", "in|a|b"), ("<nav><main>out</main></nav><p>in</p>", "in"),
        ("<p>most of the text</p><article>teaser</article>", "most of the text|teaser"),
        ("<body hidden><p>in</p><div hidden>out</div><p style='display : none'>out</p><dialog>out</dialog>", "in"),
        ("<div role=tabpanel hidden>in</div><p hidden=until-found>in</p>", "in|in"),
        ("<div aria-hidden=true><p>in</p></div><span aria-hidden=true>out</span>", "in"),
        # What speaks of rights below a heading or as a paragraph like others is text, a line about the page is not.
        (f"<p>{BEES}<h2>A</h2><p>All is copyright by B.<p>It is licensed under C.",
         f"{BEES}||All is copyright by B.|It is licensed under C."), (f"<p>{BEES}<p>© 2020 B.", BEES),
        (f"<p>{BEES}<hr><p>By B., copyright by C.", BEES), (f"<p>{BEES}<h2>A</h2><p>© 2020 B.", f"{BEES}||© 2020 B."),
        # Menus that open at a word, and links on pictures to the pages before and after.
        (f"<p>{BEES}<div>See <ul class=dropdown-menu><li>In <a href=1>Hive</a></ul>wax.</div>", f"{BEES}|See wax."),
        (f"<p>{BEES}<div><a aria-haspopup=true>B</a><ul><li><a href=1>C</a></ul>.</div>", f"{BEES}|B."),
        (f"<p>{BEES}<div><a href=1><img alt=Index></a> <a href=2><img alt=Next></a></div>", BEES),
        (f"<p>{BEES}<div class=dropdown-menu><h3>A</h3>B <a href=1>C</a></div>", f"{BEES}||B C"),
        (f"<p>{BEES}<div><a rel=next><img alt='{BEES}'></a></div>", f"{BEES}|{BEES}"),
        # Headings that stand again below them are a list of contents.
        ("".join(f"<h2><a href='#{name}'>{name}</a></h2>" for name in "ABCDE") + "".join(
         f"<h2>{name}</h2>{name}." for name in "ABCDE"), "A.||B.||C.||D.||E."),
        ("<ul role=menu><li>out</ul><div role=dialog>out</div>in", "in"),
    ],
)  # fmt: skip
def test_the_main_part_is_read_and_what_is_not_shown_is_not(html: str, text: str) -> None:
    assert text_of(html).replace("|", "||").replace("\n\n", "|") == text


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Title <a href='#t'>#</a>", "Title"), ("<a href='page.html#t'>§</a>Title", "Title"),
        ("Title <a href='#t'><img alt='Permanent link'></a>", "Title"),
        ("Title<a href='#t' class='hash-link'>&#8203;</a>", "Title"),
        ("<a href='#t'>Link</a>", "Link"), ("<a href='x'>#</a> and <code>#</code>", "# and #"),
    ],
)  # fmt: skip
def test_signs_of_permanent_links_stay_out_of_headings(heading: str, expected: str) -> None:
    (section,) = parse_html(f"<h2>{heading}</h2><p>x</p>").sections
    assert section.heading == expected


@given(st.lists(st.sampled_from(TAGS)))
def test_no_character_of_any_tag_soup_is_lost(pieces: list[str]) -> None:
    parsed = parse_html("<p>x</p>" + "".join(pieces))
    read = parsed.title + "".join(section.heading + section.text for section in parsed.sections)
    assert read.count("a") == pieces.count("a")


def test_menus_without_a_name_and_lists_of_links_that_are_text() -> None:
    page = (
        "<html><head><title>Beans - Garden</title></head><body><table><tr><td><a href=1>Home</a><td><a href=2>Beds</a>"
        "<td><a href=3>FAQ</a></table><h2>Beans</h2><p>They climb.</p><h3>See also</h3><ul><li><a href=4>Peas</a>"
        "<li><a href=5>Lentils</a><li><a href=6>Vetches</a></ul><p><a href=7>Prev</a> | <a href=8>Next</a></p>"
        f"<table><tr><td>[<a href=1> &lt; </a>]<td>[<a> Up </a>]{'<td>[<a href=9>Top</a>]' * 8}</table>"
        "<p><a href=4>&lt;</a>, <a href=5>&gt;=</a>: signs</p></body></html>"
    )
    document = Document.from_html(page)
    only = "<div class=nav><ul><li><a href=1>One</a><li><a href=2>Two</a><li><a href=3>Six</a></ul></div>"
    assert text_of(only) == "One\nTwo\nSix"
    named = "<h1>Work</h1><div class='related sidebar menu'><h2>Related work</h2><p>Others measured.</p></div>"
    assert "Others measured" in text_of(named) and document.title == "Beans"
    shown = [(section.heading, section.text) for section in document.sections]
    assert shown == [("", "They climb."), ("See also", "Peas\nLentils\nVetches\n\n<, >=: signs")]
    assert document.metadata["dropped_elements"] == {"nav": 3}


def test_links_of_scripts_and_to_other_languages_are_left_out() -> None:
    parsed = parse_html(
        "<h1>Tides</h1><p>Tides rise and fall twice a day, as the moon pulls the sea towards it and away.</p>"
        "<p><span>Available Languages: </span><a href='../en/t.html'>en</a> | "
        "<a href='../fr/t.html' hreflang='fr' rel='alternate'>fr</a> | "
        "<a href='../ja/t.html' hreflang='ja' rel='alternate'>ja</a></p>"
        "<h2>Spring tides <small><a href='#' class='summary_toggle'>collapse</a></small></h2>"
        "<p>They come at <a href='#'>new moon</a>. <a href='x.nim#L1' class='link-seesrc'>Source</a></p>"
        "<p>A book of <a href='fr.html' hreflang='fr'>French tides</a> and <a href='b.html'>others</a> stays.</p>"
    )
    assert [section.heading for section in parsed.sections] == ["", "Spring tides"]
    assert parsed.sections[0].text.endswith("towards it and away.")
    assert parsed.sections[1].text == "They come at new moon.\n\nA book of French tides and others stays."
    assert parsed.metadata["dropped_elements"] == {"interface": 1, "nav": 1, "source-link": 1}
