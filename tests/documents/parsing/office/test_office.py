from __future__ import annotations

import base64
import json
import zipfile
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from archives import W, archive, docx, links, paragraph

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.markdown import parse_notebook
from graphdoc.documents.parsing.office.docx import parse_docx
from graphdoc.documents.parsing.office.epub import parse_epub
from graphdoc.documents.parsing.office.mail import parse_mail
from graphdoc.documents.parsing.office.odt import parse_odt
from graphdoc.documents.parsing.office.pptx import parse_pptx
from graphdoc.documents.parsing.outline import ParsedDocument
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError

TEXT = "The river rises twice a day and falls as often."


def outline(parsed: ParsedDocument) -> list[tuple[int, str, str]]:
    return [(section.level, section.heading, section.text) for section in parsed.sections]


def odt(body: str, styles: str = "") -> bytes:
    named = ("office", "text", "table", "style", "number")
    spaces = "".join(f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in named)
    spaces += ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    inside = f"<office:automatic-styles><number:text>. </number:text>{styles}</office:automatic-styles>"
    inside += f"<office:body><office:text>{body}</office:text></office:body>"
    return archive({"content.xml": f"<office:document-content{spaces}>{inside}</office:document-content>"})


def test_odt() -> None:
    styles = (
        '<style:style style:name="P1" style:parent-style-name="Title"/>'
        '<style:style style:name="T1"><style:text-properties fo:font-weight="bold"/></style:style>'
    )
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note.</text:p>"
    note += "</text:note-body></text:note>"
    cells = "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in ("Gauge", "4.1"))
    body = (
        '<text:p text:style-name="P1">Tides</text:p>'
        "<text:table-of-content><text:index-body><text:p>High 1</text:p></text:index-body></text:table-of-content>"
        '<text:h text:outline-level="2">High <text:span>water</text:span></text:h>'
        f"<text:p>The river{note} rises<text:s/><text:ruby><text:ruby-base>twice</text:ruby-base>"
        "<text:ruby-text>tw-ice</text:ruby-text></text:ruby>.</text:p>"
        "<text:list><text:list-item><text:p>one</text:p></text:list-item>"
        "<text:list-item><text:p>two</text:p></text:list-item></text:list>"
        f"<table:table><table:table-row>{cells}</table:table-row></table:table>"
        '<text:p><text:span text:style-name="T1">Low water</text:span></text:p>'
        f"<text:p>{TEXT}</text:p>"
    )
    parsed = parse_odt(odt(body, styles))
    # A title may be written in several paragraphs.
    whole = body.replace("</text:p>", "</text:p><text:p text:style-name='P1'>of the river</text:p>", 1)
    assert parse_odt(odt(whole, styles)).title == "Tides of the river"
    assert parsed.title == "Tides"
    assert outline(parsed) == [
        (2, "High water", "The river rises twice.\n\nA note.\n\none\ntwo\n\nGauge\t4.1"),
        (3, "Low water", TEXT),
    ]
    assert parsed.metadata["dropped_elements"] == {"table of contents": 1, "rt": 1}


def slide(*shapes: tuple[str, str]) -> str:
    drawn = "".join(
        f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr><p:txBody>'
        + "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
        + "</p:txBody></p:sp>"
        for kind, text in shapes
    )
    return f"<p:sld {SPACES}><p:cSld><p:spTree>{drawn}</p:spTree></p:cSld></p:sld>"


NAMES = {"p": "presentationml/2006/main", "a": "drawingml/2006/main", "r": "officeDocument/2006/relationships"}
SPACES = " ".join(f'xmlns:{name}="http://schemas.openxmlformats.org/{urn}"' for name, urn in NAMES.items())


def test_pptx() -> None:
    opening = slide(("ctrTitle", "Tides"), ("subTitle", "A talk"))
    high = slide(("body", "one\ntwo"), ("title", "High water"), ("sldNum", "2"), ("ftr", "Notes on a river"))
    slides = [opening, high, slide(("title", "Low water")), slide(("body", TEXT))]
    ids = "".join(f'<p:sldId r:id="slide{number}"/>' for number in range(len(slides)))
    files = {
        "_rels/.rels": links(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:presentation {SPACES}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": links(*((f"slide{at}", f"slides/s{at}.xml") for at in range(len(slides)))),
        "ppt/slides/_rels/s1.xml.rels": links(("notesSlide", "../notes/n1.xml")),
        "ppt/notes/n1.xml": slide(("sldImg", ""), ("body", "Say it slowly.")),
    }
    parsed = parse_pptx(archive(files | {f"ppt/slides/s{at}.xml": text for at, text in enumerate(slides)}))
    assert parsed.title == "Tides"
    high = (1, "High water", "one\ntwo\n\nSay it slowly.")
    assert outline(parsed) == [(1, "", "A talk"), high, (1, "Low water", TEXT)]
    assert parsed.metadata["dropped_elements"] == {"page number": 1, "running foot": 1}


def epub(chapters: dict[str, str], title: str = "Tides", **more: str) -> bytes:
    items = "".join(
        f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml" properties="{kind}"/>'
        for name, kind in ((name, "nav" if name == "n" else "") for name in chapters)
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters if name not in ("outside", "unlinked"))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>{title}</dc:title><dc:creator>The keeper</dc:creator></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = '<container><rootfiles><rootfile full-path="book/package.opf"/></rootfiles></container>'
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>No</title></head><body>'
    pages = {f"book/{name}.xhtml": f"{page}{inside}</body></html>" for name, inside in chapters.items()}
    return archive({"META-INF/container.xml": container, "book/package.opf": package} | pages | more)


def test_epub() -> None:
    chapters = {
        "t": "<h1>Tides</h1>",
        "n": "<h1>Contents</h1><ol><li>High water</li></ol>",
        "a": f"<h1>High water</h1><p>{TEXT}</p><aside><h2>Spring</h2><p>More.</p></aside>",
        "b": "<p>Between.</p>",
        "c": "<h2>Low water</h2><p>Less.</p><aside epub:type='footnote'><p>By a foot.</p></aside>"
        "<a epub:type='noteref' href='./outside.xhtml#n1'>1</a>",
        "outside": "<aside epub:type='footnote' id='n1'><p>By an inch.</p></aside>",
        "unlinked": "<p>Cover.</p>",
    }
    parsed = parse_epub(epub(chapters))
    assert (parsed.title, parsed.metadata["creator"]) == ("Tides", "The keeper")
    low = [(2, "Low water", "Less.\n\nBy a foot.\n\n1"), (1, "", "By an inch.")]
    assert outline(parsed) == [(1, "High water", TEXT), (2, "Spring", "More."), (1, "", "Between."), *low]
    assert parsed.metadata["dropped_elements"] == {"nav": 1, "page outside the book's order": 1}
    assert parse_epub(epub({"t": "<h1>Tides</h1><p>High.</p>"}, "the-tides")).title == "Tides"
    # Some have everything in a folder.
    with zipfile.ZipFile(BytesIO(epub(chapters))) as book:
        assert parse_epub(archive({f"epub/{name}": book.read(name) for name in book.namelist()})) == parsed
    # A list of contents may be made of headings.
    listed = "".join(f"<h2><a href='a.xhtml#{name}'>{name}</a></h2>" for name in "ABCDE")
    parsed = parse_epub(epub({"l": listed, "a": "".join(f"<h2>{name}</h2><p>{TEXT}</p>" for name in "ABCDE")}))
    assert (len(parsed.sections), parsed.metadata["dropped_elements"]["toc"]) == (5, 5)
    way = '<encryption><EncryptedData><EncryptionMethod Algorithm="urn:aes"/></EncryptedData></encryption>'
    with pytest.raises(DocumentError, match="DRM"):
        parse_epub(epub({"a": "<p>x</p>"}, **{"META-INF/encryption.xml": way}))


def test_notebook(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Tides\n", "\n", TEXT]},
        {"cell_type": "code", "source": "print('```')\n```\n# no heading", "outputs": [{"output_type": "stream"}]},
        {"cell_type": "markdown", "source": "## High water\n\nMore."},
    ]
    path = tmp_path / "tides.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}), encoding="utf-8")
    document = Document.from_file(path)
    assert document.title == "Tides" and document.sections[1].path == ("High water",)
    assert document.sections[0].text == f"{TEXT}\n\nprint('```')\n```\n# no heading"
    assert document.metadata["dropped_elements"] == {"output": 1}
    cells[0] = {"cell_type": "raw", "source": "---\ntitle: Ebb\n---"}
    assert parse_notebook(json.dumps({"cells": cells})).title == "Ebb"
    # Format 2 has lines without ends.
    old = {"worksheets": [{"cells": [{"cell_type": "markdown", "source": ["# Tides", "", "They", "rise."]}]}]}
    parsed = parse_notebook(json.dumps(old))
    assert (parsed.title, outline(parsed)) == ("Tides", [(1, "", "They\nrise.")])
    for text in ("{", "[]", "{}", '{"cells": 3}'):
        with pytest.raises(DocumentError, match="notebook"):
            parse_notebook(text)


def test_mail_as_page_with_attachments() -> None:
    message = EmailMessage()
    message["Subject"], message["From"] = "Tides für alle", "keeper@example.org"
    message.set_content("Open it in a browser.")
    message.add_alternative(f"<h2>High water</h2><p>{TEXT}</p><script>no()</script>", subtype="html")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="gauge.pdf")
    parsed = parse_mail(message.as_bytes())
    assert parsed.title == "Tides für alle" and outline(parsed)[-1] == (2, "High water", TEXT)
    assert parsed.metadata["attachments"] == ["gauge.pdf"] and parsed.metadata["from"] == "keeper@example.org"


def test_mail_as_text(tmp_path: Path) -> None:
    path = tmp_path / "tides.eml"
    # Most that say so mean a larger encoding.
    subject = base64.b64encode("這傻".encode("gb18030")).decode()
    assert parse_mail(f"Subject: =?gb2312?B?{subject}?=\n\n{TEXT}".encode()).title == "這傻"
    path.write_bytes(f"Subject: Tides\nContent-Type: text/plain; charset=no-such\n\n{TEXT}\n".encode())
    document = Document.from_file(path)
    assert (document.title, document.text.strip()) == ("Tides", TEXT)
    assert "no-such" in document.metadata["warnings"][0]


def made(*paragraphs: str) -> ParsedDocument:
    return parse_docx(docx("".join(paragraphs)))


def test_styles_name_title_and_headings() -> None:
    styled = [("My Report", "Title"), ("Opening.", ""), ("One", "H1"), ("First.", ""), ("Second.", ""), ("Two", "H2")]
    styled += [("Deep.", ""), ("Two again", "Own"), ("Deep.", ""), ("Three", "H1"), ("Last.", "")]
    parsed = made(*(paragraph(*entry) for entry in styled))
    assert parsed.title == "My Report"
    deep = Section("Deep.", "Two", 2, ("One", "Two")), Section("Deep.", "Two again", 2, ("One", "Two again"))
    first, last = Section("First.\n\nSecond.", "One", 1, ("One",)), Section("Last.", "Three", 1, ("Three",))
    assert parsed.sections == (Section("Opening."), first, *deep, last)
    # They may have styles that a file does not define.
    parsed = made(paragraph("Tides", "Title"), paragraph("Shore", "Heading2"), paragraph(TEXT))
    assert (parsed.title, outline(parsed)) == ("Tides", [(2, "Shore", TEXT)])


def test_bold_and_larger_lines_are_headings() -> None:
    sentence = "This whole sentence is bold, and it ends as sentences do."
    title, text = paragraph("A river in two moods", bold=True, size=32), paragraph(TEXT)
    partly = paragraph(f"{TEXT} ", extra="<w:r><w:rPr><w:b/></w:rPr><w:t>Bold.</w:t></w:r>")
    bold = [paragraph(text, bold=True) for text in ("High water", sentence, "Low water", "The keeper")]
    parsed = made(title, text, bold[0], partly, *bold[1:3], text, bold[3])
    assert parsed.title == "A river in two moods"
    assert [section.heading for section in parsed.sections if section.heading] == ["High water", "Low water"]
    assert sentence in parsed.sections[1].text and parsed.sections[-1].text.endswith("The keeper")
    # They stand below styled headings, and a text that is bold throughout has none by weight.
    styled = (paragraph("One", "H1"), paragraph("Detail", bold=True), paragraph(TEXT), paragraph("Two", "H1"))
    parsed = made(*styled, paragraph(TEXT))
    assert [(section.level, section.heading) for section in parsed.sections] == [(1, "One"), (2, "Detail"), (1, "Two")]
    parsed = made(*(paragraph(text, bold=True) for text in ("Short", TEXT, "Another", TEXT)))
    assert [section.heading for section in parsed.sections] == [""]


def test_notes_tables_boxes_and_changes() -> None:
    note = f'<w:footnotes {W}><w:footnote w:id="2"><w:p><w:r><w:t>A note.</w:t></w:r></w:p></w:footnote></w:footnotes>'
    mark = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    changed = (
        "<w:del><w:r><w:delText>gone </w:delText></w:r></w:del><w:ins><w:r><w:t> new</w:t></w:r></w:ins>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
        "<w:r><w:t>er</w:t><w:noBreakHyphen/><w:t>line</w:t><w:br/><w:t>next</w:t></w:r>"
    )
    box = f"<w:r><w:pict><w:txbxContent>{paragraph('In a box.')}</w:txbxContent></w:pict></w:r>"

    def row(*cells: str) -> str:
        return f"<w:tr>{''.join(f'<w:tc>{paragraph(cell)}</w:tc>' for cell in cells)}</w:tr>"

    body = paragraph(TEXT, extra=mark) + paragraph("Tracked", extra=changed + box)
    body += f"<w:tbl>{row('Gauge', 'Spring')}{row('Upper', '4.1')}</w:tbl>"
    body += f"<w:tbl><w:tr><w:tc>{paragraph('Framed', 'H1')}{paragraph('Text.')}</w:tc></w:tr></w:tbl>"
    parsed = parse_docx(docx(body, footnotes=note, header=f"<w:hdr {W}>{paragraph('Running head')}</w:hdr>"))
    text = f"{TEXT}\n\nA note.\n\nTracked newer-line\nnext\n\nIn a box.\n\nGauge\tSpring\nUpper\t4.1"
    assert parsed.sections[0].text == text
    assert (parsed.sections[1].heading, parsed.sections[1].text) == ("Framed", "Text.")
    assert parsed.metadata["dropped_elements"] == {"header": 1, "hidden": 1}
    # So are lists of contents.
    parsed = made(paragraph("One 1", "TOC1"), paragraph("Two 2", "TOC1"), paragraph("One", "H1"), paragraph(TEXT))
    assert parsed.metadata["dropped_elements"] == {"table of contents": 2} and outline(parsed) == [(1, "", TEXT)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no such thing", "damaged"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an old file", "older kind"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "password"),
        (archive({"a.txt": "text"}), "missing"), (archive({"word/document.xml": "<a>"}), "damaged"),
        (archive({"word/document.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}), "entities"),
    ],
)  # fmt: skip
def test_what_is_no_word_file_says_so_in_a_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken.docx"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=rf"broken\.docx: it cannot be read as DOCX: .*{words}") as caught:
        Document.from_file(path)
    assert "\n" not in str(caught.value)


def test_the_text_of_a_file_with_macros_is_read_and_the_macros_are_not(tmp_path: Path) -> None:
    path = tmp_path / "report.docm"
    plain = docx("".join(paragraph(*entry) for entry in [("Salt", "H1"), (TEXT, ""), ("Smoke", "H1"), (TEXT, "")]))
    with zipfile.ZipFile(BytesIO(plain)) as source, zipfile.ZipFile(path, "w") as file:
        for name in source.namelist():
            file.writestr(name, source.read(name).replace(b"document.main+xml", b"document.macroEnabled.main+xml"))
        file.writestr("word/vbaProject.bin", b"\xd0\xcf\x11\xe0" + b"Sub AutoOpen() Shell calc " * 100)
        file.writestr("word/vbaData.xml", f"<w:mcds {W}><w:mcd w:macroName='PROJECT.AUTOOPEN'/></w:mcds>")
    document = Document.from_file(path)
    assert document.sections == (Section(TEXT, "Salt", 1, ("Salt",)), Section(TEXT, "Smoke", 1, ("Smoke",)))


def test_what_is_made_to_fill_the_memory_or_the_stack_is_refused() -> None:
    with pytest.raises(DocumentError, match="40,000,003 bytes"):
        parse_docx(archive({"word/document.xml": b"<a>" + b" " * 40_000_000}))
    with pytest.raises(DocumentError, match="nested deeper"):
        made("<w:sdt>" * 600 + paragraph("x") + "</w:sdt>" * 600)
