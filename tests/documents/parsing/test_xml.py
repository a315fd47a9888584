from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc import read_documents
from graphdoc.documents.document import Document
from graphdoc.documents.parsing.plain_text import parse_plain_text
from graphdoc.documents.parsing.rst import parse_rst
from graphdoc.documents.parsing.xml import parse_xml
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError

JATS = """<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) v1.2//EN" "http://192.0.2.1/JATS-archivearticle1.dtd">
<article xmlns:mml="http://www.w3.org/1998/Math/MathML"><front><journal-meta><p>Journal</p></journal-meta><article-meta>
<title-group><article-title>The <italic>T</italic>itle&nbsp;é<xref>*</xref></article-title></title-group>
<abstract><p>Summary.</p></abstract></article-meta></front>
<body><p>Lead &alpha; &unknown;.</p>
<sec><label>1</label><title>One</title><p>Text [<xref>1</xref>]<fn><p>Note.</p></fn> goes on.</p>
<sec><title>Two</title><list><list-item><p>i</p></list-item><list-item><p>j</p></list-item></list></sec>
<p>After two.</p><fig><label>Figure 1</label><caption><title>Cap</title></caption></fig></sec>
<sec><title>Three</title><p>x
<alternatives><tex-math>$y$</tex-math><mml:math><mml:mi>y</mml:mi></mml:math></alternatives></p>
<boxed-text><sec><title>Box</title><p>b</p></sec></boxed-text></sec></body>
<back><ack><p>Thanks.</p></ack><ref-list><ref>Reference</ref></ref-list></back>
<sub-article><front-stub><title-group><article-title>Sub</article-title></title-group></front-stub>
<body><p>s</p></body></sub-article></article>"""

TEI = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt><title>T</title></titleStmt></fileDesc>
<profileDesc><abstract><p>Summary.</p></abstract></profileDesc></teiHeader><text><body>
<div><head n="1">One</head><p>Text<note place="foot">Note.</note> of<lb/><choice>
<sic>teh</sic><corr>the</corr></choice> <sic>lo<pb break="no"/>ne</sic> kind.</p>
<div><head>Two</head><lg><l>verse</l><l>line</l></lg></div></div></body>
<back><div><listBibl><bibl>Reference</bibl></listBibl></div></back></text></TEI>"""


def test_jats() -> None:
    parsed = parse_xml(JATS)
    assert parsed.title == "The Title é" and parsed.metadata == {"dropped_elements": {"ref-list": 1}}
    assert parsed.sections == (
        Section("Summary.", "Abstract", 1, ("Abstract",)),
        Section("Lead α &unknown;."),
        Section("Text [1] goes on.\n\nNote.", "1 One", 1, ("1 One",)),
        Section("i\nj", "Two", 2, ("1 One", "Two")),
        Section("After two.\n\nFigure 1\n\nCap", "1 One", 1, ("1 One",)),
        Section("x y\n\nBox\n\nb", "Three", 1, ("Three",)),
        Section("Thanks.", "Acknowledgements", 1, ("Acknowledgements",)),
        Section("s", "Sub", 1, ("Sub",)),
    )


def test_tei() -> None:
    parsed = parse_xml(TEI)
    assert parsed.title == "T" and parsed.metadata == {"dropped_elements": {"listBibl": 1}}
    inner = (
        Section("Text of the lone kind.\n\nNote.", "One", 1, ("One",)),
        Section("verse\nline", "Two", 2, ("One", "Two")),
    )
    assert parsed.sections == (Section("Summary.", "Abstract", 1, ("Abstract",)), *inner)


def test_untitled_sections_and_xhtml() -> None:
    parsed = parse_xml("<article><body><sec><p>a</p><sec><title>B</title></sec></sec><p>c</p></body></article>")
    assert parsed.sections == (Section("a"), Section("", "B", 2, ("B",)), Section("c"))
    page = "<refmeta/><refnamediv><refname>T</refname></refnamediv><refsect1><title>A</title><para>a</para></refsect1>"
    parsed = parse_xml(f"<refentry>{page}</refentry>")
    assert (parsed.title, parsed.sections) == ("T", (Section("T"), Section("a", "A", 1, ("A",))))
    parsed = parse_xml('<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>T</h1><h2>A</h2><p>a</p></body></html>')
    assert (parsed.title, parsed.sections) == ("T", (Section("a", "A", 2, ("A",)),))


BOMB = "<!DOCTYPE l [<!ENTITY a 'aaaa'>{}]><article><body><p>&i;</p></body></article>".format(
    "".join(f"<!ENTITY {name} '{f'&{inner};' * 10}'>" for inner, name in zip("abcdefgh", "bcdefghi", strict=True))
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        '<!DOCTYPE article [<!ENTITY e SYSTEM "file:///etc/passwd">]><article><body><p>&e;</p></body></article>',
        '<!DOCTYPE article [<!ENTITY % p SYSTEM "http://192.0.2.1/x.dtd"> %p;]><article/>',
        '<!-- <a> --><?p <b> ?>\n<!DOCTYPE article [<!-- <c> --><!ENTITY e "x">]><article><body>&e;</body></article>',
        '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY e "x">]><html><body>&e;</body></html>',
        f'<?xml version="1.0"?>{BOMB.replace("[", "[<!-- <a --><?b <c ?>")}',
    ],
    ids=["bomb", "external", "parameter", "behind comments", "xhtml", "behind a comment in xhtml"],
)
def test_declared_entities_are_refused(text: str) -> None:
    with pytest.raises(DocumentError, match=r"^document 'a': its DOCTYPE declares entities"):
        Document.from_xml(text, id="a")
    if "<?xml" in text:
        with pytest.raises(DocumentError, match="declares entities"):
            Document.from_html(text, id="a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<{'a' * 9999}/>", "^its root element <a{59}…> is unknown"),
        ("<rss><channel/></rss>", "its root element <rss> is unknown"),
        ("<article><body></article>", "it is not well-formed XML .*line 1"), ("", "it is not well-formed XML"),
        ("<article>&nbsp;</article>", "it is not well-formed XML .*nbsp"),
        ("<sec>" * 5000, "it is not well-formed XML .*depth"),
    ],
)  # fmt: skip
def test_other_xml_is_an_error_of_one_line(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        parse_xml(text)
    assert "\n" not in str(caught.value)


SOURCE = """\
.. image:: garden.png
   :alt: A garden

=====
Tides
=====

.. contents::

Read by :func:`gauge <tide.gauge>`, see `the map <https://example.org>`_ and ``level``.

Marsh
-----

- samphire
- sea lavender

  - white
  - blue

.. note:: Closed in May.

.. versionadded:: 3.1
   The *second* gauge.

.. code-block:: python

   level = 1

.. toctree::

   other

.. a comment

===== =====
name  metre
===== =====
Reed  1.4
===== =====

Depth
~~~~~

Four [1]_.

.. [1] At noon.

Night
-----

Dark.
"""


def test_sections_and_text() -> None:
    parsed = parse_rst(SOURCE)
    assert parsed.title == "Tides"
    plants = "samphire\nsea lavender\nwhite\nblue\n\nClosed in May.\n\nAdded in version 3.1\n\nThe second gauge."
    marsh = Section(f"{plants}\n\nlevel = 1\n\nname\tmetre\n\nReed\t1.4", "Marsh", 2, ("Marsh",))
    depth = Section("Four 1.\n\n1\n\nAt noon.", "Depth", 3, ("Marsh", "Depth"))
    opening = Section("A garden\n\nRead by gauge, see the map and level.")
    assert parsed.sections == (opening, marsh, depth, Section("Dark.", "Night", 2, ("Night",)))
    assert parsed.metadata == {"dropped_elements": {"comment": 1, "contents": 1, "toctree": 1}}


def test_nothing_is_included(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret words")
    file = tmp_path / "page.rst"
    file.write_text(
        "Words.\n\n.. include:: secret.txt\n\n.. raw:: html\n   :file: secret.txt\n\n"
        ".. |m| raw:: html\n\n   secret words\n\n.. csv-table::\n   :file: secret.txt\n\n"
        ".. literalinclude:: secret.txt\n"
    )
    document = Document.from_file(file)
    assert "secret words" not in document.text and "Words." in document.text


def test_broken_markup_keeps_its_words() -> None:
    document = parse_rst(
        "Title\n==\n\n*open emphasis, |missing| and `bad_.\n\n.. program:: ebb\n\n.. unknown:: Argument\n\n   Inside.\n"
    )
    text = " ".join(f"{section.heading} {section.text}" for section in document.sections) + document.title
    wanted = ("Title", "open emphasis", "missing", "bad", "Argument", "Inside", "ebb")
    assert [word for word in wanted if word not in text] == ["ebb"]


WORDS = "The tide came in over the marsh at noon and left it again before the night had begun."


def outline_of(text: str) -> list[tuple[int, str]]:
    return [(section.level, section.heading) for section in parse_plain_text(text).sections if section.heading]


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def test_chapters_are_headings_and_lists_and_tables_are_none() -> None:
    assert outline_of("1. milk\n\n2. bread\n\n3. tea\n") == []
    assert outline_of("A NOTE TO ALL\n\nALL OF THIS IS IN CAPITALS, AS TELEGRAMS ARE.\n") == []
    assert outline_of(f"1. 潮汐\n\n{WORDS}\n\n2. 月\n\n{WORDS}") == [(1, "1. 潮汐"), (1, "2. 月")]
    parts = ["File: a.info,  Node: Moon,  Up: (dir)\n\n1.1. Why do they\nrise?", "Sea\nis", "© A. Doe", "1.2. Moon", ""]
    whole = "\n\n    They rise.\n    So.\n    So.\n    So.\n\n".join(parts)
    assert outline_of(whole) == [(1, "1.1. Why do they rise?"), (1, "1.2. Moon")]
    page = "\n\n".join(f"{name}\n    tide" for name in ("名前", "書式", "説明", "関連"))
    assert len(outline_of(f"tide(1)   Manual   tide(1)\n\n{page}\n\n{'tide(1)':>60}")) == 4
    assert outline_of(f"name    age    town\n-------------------\nann     7      Ham\n\n{WORDS}") == []
    text = f"{WORDS}\n\n- one\n- two\n\nThe USA joined.\n\n{WORDS}"
    assert [section.text for section in parse_plain_text(text).sections] == [text]
    contents = "CHAPTER I\n\nCHAPTER II\n\nCHAPTER III\n\n"
    chapters = "\n\n".join(f"CHAPTER {number}\n\n{WORDS}" for number in ("I", "II", "III"))
    assert outline_of(contents + chapters) == [(1, "CHAPTER I"), (1, "CHAPTER II"), (1, "CHAPTER III")]


LOW = "What a low water does to boats in port"


@pytest.mark.parametrize(
    ("listed", "chapter"),
    [
        (f"Contents\n\n1. Ebb\n   1.1. {LOW[:30]}\n{LOW[30:]}\n2. Flood\n", f"{' ' * 30}Chapter {{}}. {{}}"),
        (f"Innehåll\n========\n1. Ebb .... 1\n1.1. {LOW} . . . . 12\n2. Flood .... 13\n", "{} {}"),
        (f"* Ebb\n* {LOW}\n* Flood\n", "{}. {}"), (f"目录\n\n1. Ebb\n\n  1.1 {LOW}\n\n2. Flood\n", "第 {} 章 {}"),
    ],
)  # fmt: skip
def test_tables_of_contents_are_left_out_and_centred_chapters_are_headings(listed: str, chapter: str) -> None:
    first, second = chapter.format(1, "Ebb"), chapter.format(2, "Flood")
    parts = ("Tides", listed, first, f"{WORDS}\n" * 20, f"1.1. {LOW}", WORDS, second, WORDS, "2.1. Rain?", WORDS)
    parsed = parse_plain_text("\n\n".join(parts))
    assert parsed.sections[0].text == "Tides" and parsed.metadata["dropped_elements"] == {"table of contents": 3}
    found = [(one.level, one.heading) for one in parsed.sections[1:]]
    assert found == [(1, first.strip()), (2, f"1.1. {LOW}"), (1, second.strip()), (2, "2.1. Rain?")]


def test_comments_of_code_and_lists_of_prices_are_text() -> None:
    for lines in ("# To the end\ngit jump\n\n# and back\n$ cd -", "Soup ..... 4\nRice ..... 7\nTea ...... 9"):
        assert parse_plain_text(text := f"{WORDS}\n\n{lines}\n\n{WORDS}").sections == (Section(text),)
    assert outline_of(f"# Ebb\n{WORDS}\n\n# Flood\n{WORDS}") == [(1, "Ebb"), (1, "Flood")]
    numbered = f"\n\n{WORDS}\n\n".join(("1. Ebb", "# ebb --low\n\n## So it ebbs:\n\n1.1. Low", "2. Flood", ""))
    assert outline_of(numbered) == [(1, "1. Ebb"), (2, "1.1. Low"), (1, "2. Flood")]


def test_divided_words_are_joined() -> None:
    text = "Embankment, an embank-\nment. A well-known rule, a well-\nknown law; South-\nWest wind, hyphen\xad\nated."
    whole = "Embankment, an embankment. A well-known rule, a well-known law; South-West wind, hyphenated."
    assert parse_plain_text(text).sections[0].text == whole


def test_switch(tmp_path: Path) -> None:
    text = f"TIDES\n\n{WORDS}\n\nGATES\n\n{WORDS} {WORDS}\n"
    file = tmp_path / "tides.txt"
    file.write_text(text)
    assert [section.heading for section in Document.from_file(file).sections] == ["TIDES", "GATES"]
    whole = Document.from_file(file, text_headings=False)
    assert [(section.heading, section.text) for section in whole.sections] == [("", text.rstrip("\n"))]
    (read,) = read_documents(file, text_headings=False)
    assert read.sections == whole.sections
    # A string is a text, whatever its lines look like.
    assert len(Document.from_text(text).sections) == 1


@settings(deadline=None)
@given(st.text(alphabet="ab AB1.-=~\n\t", max_size=200))
def test_no_letter_is_lost(text: str) -> None:
    parsed = parse_plain_text(text)
    read = parsed.title + "".join(section.heading + section.text for section in parsed.sections)
    assert letters(read) == letters(text)
