from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from archives import W, archive, docx, paragraph

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.office.docx import parse_docx
from graphdoc.documents.parsing.outline import ParsedDocument
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError

TEXT = "The river rises twice a day and falls as often."


def test_styles_name_title_and_headings(tmp_path: Path) -> None:
    path = tmp_path / "report.docx"
    styled = [("My Report", "Title"), ("Opening.", ""), ("One", "H1"), ("First.", ""), ("Second.", ""), ("Two", "H2")]
    styled += [("Deep.", ""), ("Two again", "Own"), ("Deep.", ""), ("Three", "H1"), ("Last.", "")]
    path.write_bytes(docx("".join(paragraph(*entry) for entry in styled)))
    document = Document.from_file(path)
    assert document.title == "My Report"
    assert document.sections == (
        Section("Opening."),
        Section("First.\n\nSecond.", "One", 1, ("One",)),
        Section("Deep.", "Two", 2, ("One", "Two")),
        Section("Deep.", "Two again", 2, ("One", "Two again")),
        Section("Last.", "Three", 1, ("Three",)),
    )


def made(*paragraphs: str) -> ParsedDocument:
    return parse_docx(docx("".join(paragraphs)))


def test_bold_and_larger_lines_are_headings() -> None:
    sentence = "This whole sentence is bold, and it ends as sentences do."
    parsed = made(
        paragraph("A river in two moods", bold=True, size=32),
        paragraph(TEXT),
        paragraph("High water", bold=True),
        paragraph(f"{TEXT} ", extra="<w:r><w:rPr><w:b/></w:rPr><w:t>Bold in a line.</w:t></w:r>"),
        paragraph(sentence, bold=True),
        paragraph("Low water", bold=True),
        paragraph(TEXT),
        paragraph("The keeper", bold=True),
    )
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
    head = f"<w:hdr {W}>{paragraph('Running head')}</w:hdr>"
    parsed = parse_docx(docx(body, footnotes=note, header=head))
    assert parsed.sections[0].text == (
        f"{TEXT}\n\nA note.\n\nTracked newer-line\nnext\n\nIn a box.\n\nGauge\tSpring\nUpper\t4.1"
    )
    assert (parsed.sections[1].heading, parsed.sections[1].text) == ("Framed", "Text.")
    assert parsed.metadata["dropped_elements"] == {"header": 1, "hidden": 1}


def test_contents_are_left_out_and_counted() -> None:
    parsed = made(paragraph("One 1", "TOC1"), paragraph("Two 2", "TOC1"), paragraph("One", "H1"), paragraph(TEXT))
    assert parsed.metadata["dropped_elements"] == {"table of contents": 2}
    assert [section.text for section in parsed.sections] == [TEXT]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no such thing", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an old file", "older kind"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "password"),
        (archive({"a.txt": "text"}), "missing"),
        (archive({"word/document.xml": "<a>"}), "damaged"),
        (archive({"word/document.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}), "entities"),
    ],
)
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
            content = source.read(name).replace(b"document.main+xml", b"document.macroEnabled.main+xml")
            file.writestr(name, content)
        file.writestr("word/vbaProject.bin", b"\xd0\xcf\x11\xe0" + b"Sub AutoOpen() Shell calc " * 100)
        file.writestr("word/vbaData.xml", f"<w:mcds {W}><w:mcd w:macroName='PROJECT.AUTOOPEN'/></w:mcds>")
    document = Document.from_file(path)
    assert document.sections == (Section(TEXT, "Salt", 1, ("Salt",)), Section(TEXT, "Smoke", 1, ("Smoke",)))


def test_what_is_made_to_fill_the_memory_or_the_stack_is_refused() -> None:
    with pytest.raises(DocumentError, match="40,000,003 bytes"):
        parse_docx(archive({"word/document.xml": b"<a>" + b" " * 40_000_000}))
    with pytest.raises(DocumentError, match="nested deeper"):
        made("<w:sdt>" * 600 + paragraph("x") + "</w:sdt>" * 600)
