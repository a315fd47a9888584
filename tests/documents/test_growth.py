"""No file takes a reader longer than its size explains: the marks of every format, repeated without end."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from archives import W, archive, docx
from typed import Patch

from graphdoc.documents.parsing import formats
from graphdoc.documents.readers import read_documents
from graphdoc.documents.readers.records import ReadingReport

SMALL, TIMES = 2_000, 4

DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIL = "From: a@b.c\nSubject: Tides\n"
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Tides rise. Tides fall.</p></body></html>'


def repeated(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * (size // len(unit)) + after


def nested(opening: str, closing: str, before: str = "", after: str = "") -> Callable[[int], str]:
    def source(size: int) -> str:
        depth = min(size // len(opening + closing), 1_900)
        return f"{before}{opening * depth}a{closing * depth}{after}"

    return source


def noted(body: str, notes: str = "") -> bytes:
    return docx(body, footnotes=f"<w:footnotes {W}>{notes}</w:footnotes>")


def pptx(slide: str, slides: int = 1) -> bytes:
    names = f'xmlns:a="{DRAWING}" xmlns:p="p" xmlns:r="{LINKS}"'
    links = '<R><Relationship Id="r1" Type="x/slide" Target="s.xml"/></R>'
    whole = f"<p:x {names}>" + '<p:sldId r:id="r1"/>' * slides + "</p:x>"
    parts = {"ppt/presentation.xml": whole, "ppt/_rels/presentation.xml.rels": links}
    return archive(parts | {"ppt/s.xml": f"<p:sld {names}>{slide}</p:sld>"})


def epub(spine: str, chapter: str = PAGE) -> bytes:
    item = '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/>'
    title = '<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">Book</dc:title>'
    container, package = '<c><rootfile full-path="p.opf"/></c>', f"<package>{title}{item}{spine}</package>"
    return archive({"META-INF/container.xml": container, "p.opf": package, "c.xhtml": chapter})


MARKS = {
    "rst": (
        "*a ", "|a ", "`a ", ":r:`a ", "a_ ", "[1]_ ", "*a\n", "a:b:", "a@b.", "  a\n\n  -- b\n\n",
        ".. foo:: a\n\n   b\n\n", ".. |a| replace:: b\n", "== ==\na  b\n== ==\n\n", ".. [#] a\n",
    ),
    "md": ("*a ", "_a *b ", "[", "[a](", "[a][", "`a ``b ", "<", "<a b='", "<!-- a ", "<![CDATA[", "|a", "[a]: b\n"),
    "html": ("<p><i>a", "<a b='", "<", "<table><tr><td>a", "<!-- a ", "<div><main>a</main><p>b</p></div>",
             "<h2>a</h2>", '<a href="#x">link</a>'),
}  # fmt: skip
MAILS = (
    ("comments", "(a)", "To: ", "b"),
    ("depth", "(", "To: ", "b"),
    ("marks", '"', "To: ", "b"),
    ("parameters", ";", "Content-Type: text/plain", "b"),
    ("parts", "--x\n\na\n", "Content-Type: multipart/mixed; boundary=x\n\n", "--x--"),
    ("mails", "Content-Type: message/rfc822\n\n", "", "b"),
)
SOURCES: dict[str, Callable[[int], str | bytes]] = {
    **{f"{mark!r}.{kind}": repeated(mark) for kind, marks in MARKS.items() for mark in marks},
    **{f"{name}.eml": repeated(unit, MAIL + before, f"\n\n{end}") for name, unit, before, end in MAILS},
    "columns.rst": lambda size: f"{'== ' * (size // 9)}\n{'a  ' * (size // 9)}\n{'== ' * (size // 9)}\n",
    "grid.rst": lambda size: f"{'+--' * (size // 9)}+\n{'|a ' * (size // 9)}|\n{'+--' * (size // 9)}+\n",
    "literal.rst": repeated("*a ", ".. parsed-literal::\n\n   "),
    "cell.rst": repeated("*a ", "== ==\na  ", "\n== ==\n"),
    "unfolding.rst": lambda size: (
        "".join(f".. |a{n}| replace:: |a{n + 1}| |a{n + 1}|\n" for n in range(size // 40)) + "\n|a0|\n"
    ),
    "used.rst": lambda size: f".. |a| replace:: {'b' * (size // 2)}\n\n{'|a| ' * (size // 8)}",
    "cdata.md": repeated("<![CDATA[ ", "<div>\n]]>"),
    "quotes.md": lambda size: "".join(f"{'>' * (line % 90)} a\n" for line in range(size // 48)),
    "lists.md": lambda size: "".join(f"{'  ' * (line % 40)}- a\n" for line in range(size // 44)),
    "number.html": repeated("1", "<p>a</p><h2>chapter ", "</h2>"),
    "buttons.html": nested("<button>", "</button>"),
    "headings.html": nested("<h1>", "</h1>"),
    "menus.html": nested("<div class=menu><a href=x></a>", "</div>", after="<p>Tides rise and fall."),
    "contents.html": nested('<div><a href="#x">a</a>', "</div>"),
    "sections.xml": nested("<sec><title>a</title>", "</sec>", "<article><body>", "</body></article>"),
    "formulas.xml": repeated("\\begin{document}", "<article><body><p><tex-math>", "</tex-math></p></body></article>"),
    "notes.xml": nested("<p><note>", "</note></p>", "<TEI><text><body>", "</body></text></TEI>"),
    "hyphen.txt": repeated("a", after="-\nb"),
    "paragraph.txt": lambda size: "word " * size + "\nSecond line\n",
    "lines.txt": repeated("ABC\n\nab-\ncd\n\n"),
    "levels.jsonl": lambda size: json.dumps(
        {"sections": [{"heading": "a", "text": "b", "level": level} for level in range(1, size // 40)]}
    ),
    "quotation.csv": repeated('"a\n', "text\n"),
    "fences.ipynb": repeated("```\\n", '{"cells":[{"cell_type":"code","source":"', '"}]}'),
    "notes.docx": lambda size: noted("<w:p/>", nested("<w:footnote><w:p><w:t>a</w:t>", "</w:p></w:footnote>")(size)),
    "references.docx": lambda size: noted(
        "<w:p>" + '<w:r><w:footnoteReference w:id="1"/></w:r>' * (size // 90) + "</w:p>",
        '<w:footnote w:id="1"><w:p><w:t>' + "a " * (size // 4) + "</w:t></w:p></w:footnote>",
    ),
    "shapes.pptx": lambda size: pptx(nested("<p:sp><a:p><a:t>b</a:t></a:p>", "</p:sp>")(size)),
    "tables.pptx": lambda size: pptx(nested("<p:graphicFrame><a:tr><a:tc>", "</a:tc></a:tr></p:graphicFrame>")(size)),
    "slides.pptx": lambda size: pptx("<p:sp><a:p><a:t>Tides rise.</a:t></a:p></p:sp>" * 20, size // 20),
    "spine.epub": lambda size: epub('<itemref idref="c"/>' * (size // 20)),
    "titles.epub": lambda size: epub('<itemref idref="c"/>', f"<title>{'<title>' * (size // 7)}<p>Tides rise."),
}


def read(path: Path) -> tuple[float, int]:
    """CPU time and characters of what is read."""
    start = time.process_time()
    documents = list(read_documents(str(path), on_error="skip", report=ReadingReport()))
    seconds = time.process_time() - start
    sections = [section for document in documents for section in document.sections]
    return seconds, sum(len(section.text) + sum(map(len, section.path)) for section in sections)


@pytest.mark.parametrize("suffix", sorted({Path(name).suffix for name in SOURCES}))
def test_four_times_the_marks_take_four_times_the_work(tmp_path: Path, suffix: str) -> None:
    """Twice that, and a little time, are left to chance; work that grows with the square takes sixteen times."""
    for name, make in SOURCES.items():
        if not name.endswith(suffix):
            continue
        paths = []
        for size in (SMALL, TIMES * SMALL):
            source = make(size)
            paths.append(tmp_path / f"{size}{suffix}")
            paths[-1].write_bytes(source if isinstance(source, bytes) else source.encode())
        for attempt in range(3):
            (seconds, characters), (more_seconds, more_characters) = map(read, paths)
            if more_seconds <= 2 * TIMES * seconds + 0.1:
                break
            assert attempt < 2, f"{name}: {seconds:.3f} s became {more_seconds:.3f} s"
        assert more_characters <= 2 * TIMES * characters + 100_000, name


def test_packed_empty_lines_are_limited(tmp_path: Path, monkeypatch: Patch) -> None:
    path = tmp_path / "page.txt.gz"
    path.write_bytes(gzip.compress(b"Tides rise." + b"\n \n" * 200_000 + b"Tides fall."))
    assert [document.text for document in read_documents(str(path))] == ["Tides rise.\n\nTides fall."]
    raw = next(iter(read_documents(str(path), text_headings=False))).text
    assert raw.split() == ["Tides", "rise.", "Tides", "fall."] and len(raw) < 2_000
    monkeypatch.setattr(formats, "_MOST_EMPTY_LINES", 10_000)
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": "a", "text": "Tides rise."}' + b"\n" * 20_000))
    report = ReadingReport()
    assert [document.id for document in read_documents(str(path), on_error="skip", report=report)] == ["a"]
    assert len(report.skipped) == 1


def test_what_is_limited_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "page.rst"
    path.write_text(f"Tides rise.\n\n{'*a ' * 10_000}\n\n{'=' * 2} {'== ' * 400}\n\n|a| and *so on*\n")
    (document,) = read_documents(str(path))
    assert document.text.startswith("Tides rise.\n\n*a *a ") and document.text.endswith("|a| and so on")
    assert len(document.metadata["warnings"]) == 2
    path = tmp_path / "book.epub"
    path.write_bytes(epub('<itemref idref="c"/>' * 3))
    (document,) = read_documents(str(path))
    assert document.text == "Tides rise. Tides fall."
    assert document.metadata["dropped_elements"]["repeated chapter"] == 2
