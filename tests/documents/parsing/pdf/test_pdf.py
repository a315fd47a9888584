"""PDF files: headings, paragraphs, columns, tables, what surrounds the text, damage, and right-to-left scripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pdf_files import LINES, Words, paragraph, write_pdf
from typed import Patch

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.outline import ParsedDocument
from graphdoc.documents.parsing.pdf import file_process
from graphdoc.documents.parsing.pdf.reader import parse_pdf
from graphdoc.errors import DocumentError

TEXT = " ".join(LINES)
HIGH, LOW = "High water", "Low water"


def read(*pages: Sequence[Words]) -> ParsedDocument:
    return parse_pdf(write_pdf(list(pages)))


def names(parsed: ParsedDocument) -> list[str]:
    return [section.heading for section in parsed.sections if section.heading]


def headings(parsed: ParsedDocument) -> list[tuple[int, str]]:
    return [(section.level, section.heading) for section in parsed.sections if section.heading]


def body(parsed: ParsedDocument) -> str:
    return "\n\n".join(section.text for section in parsed.sections)


def column(*lines: tuple[str, float, str], top: int = 790, below: int = 72, left: int = 72) -> list[Words]:
    """Lines (text, size, font) with a paragraph below each, which begins at a place."""
    words = []
    for number, (text, size, font) in enumerate(lines):
        place = top - 80 * number
        words += [Words(left, place, text, size, font), *paragraph(below, place - 20, LINES)]
    return words


def sections(*lines: Words, below: int = 72) -> list[Words]:
    """A page with two headings, and lines with a paragraph below each, which begins at a place."""
    words = column((HIGH, 14, "B"), (LOW, 14, "B"))
    for number, line in enumerate(lines):
        top = 630 - 70 * number
        words += [Words(line.left, top, line.text, line.size, line.font), *paragraph(below, top - 16, LINES)]
    return words


def warned(parsed: ParsedDocument, *parts: str) -> bool:
    return any(all(part in warning for part in parts) for warning in parsed.metadata["warnings"])


def test_sizes_weights_numbers_and_the_outline_make_headings_of_levels() -> None:
    looks = (("A river in two moods", 20, "B"), (HIGH, 14, "B"), ("At body size", 10, "B"), ("Slanted", 10, "I"))
    parsed = read(column(*looks, (LOW, 14, "B"), ("Slanted again", 10, "I")))
    assert parsed.title == "A river in two moods"
    # A title in the middle and a heading that looks alike are two.
    middle = [Words(230, 790, "A river", 18, "B"), *column(*((HIGH, 18, "B"),) * 2, top=766)]
    assert names(parse_pdf(write_pdf([middle], title="(anonymous)")))[:2] == ["A river", HIGH]
    # Wherever it begins.
    assert read([Words(100, 790, "A river\x86", 25, "B"), *column(*((HIGH, 17, "B"),) * 4, top=690)]).title == "A river"
    levels = [(2, HIGH), (3, "At body size"), (4, "Slanted"), (2, LOW), (4, "Slanted again")]
    assert headings(parsed) == levels and [section.text for section in parsed.sections] == [TEXT] * 6
    numbered = column(("1 Banks", 12, "B"), ("1.1 Mud", 12, "B"), top=760)
    numbered += [Words(90, 610, "1. Take a spade."), Words(90, 598, "2. Wait for the ebb.")]
    parsed = read([*numbered, *column(("2 Beds", 12, "B"), top=570)])
    assert headings(parsed) == [(1, "1 Banks"), (2, "1.1 Mud"), (1, "2 Beds")]
    assert "1. Take a spade.\n2. Wait for the ebb." in parsed.sections[1].text
    chapter = [Words(72, 780, "A river", 20, "B"), Words(72, 750, "IV", 14, "B"), *paragraph(72, 730, LINES)]
    parsed = read([*chapter, Words(290, 40, "12")])
    assert (parsed.title, headings(parsed), body(parsed)) == ("A river", [(2, "IV")], TEXT)
    # The outline counts, and useless ones do not.
    first = [Words(72, 760, "plainly set"), *paragraph(72, 746, LINES), *column(("quite", 14, "B"), top=690)]
    parsed = parse_pdf(write_pdf([first], outline=[("plainly set", 0), ("Page 1", 0)]))
    assert "plainly set" in [parsed.title, *names(parsed)]
    # Of looks that rank alike the first stands above.
    for fonts in ("FHF", "HFH"):
        parts = column(*((f"Part {font}", 14, font) for font in fonts), top=700)
        first, second, third = (level for level, _ in headings(read([*column(("Tides", 20, "B")), *parts])))
        assert first == third < second


@pytest.mark.parametrize(
    ("size", "font", "lines"),
    [
        (14, "F", ["Ada Ebb", "23 October 2004, revised"]), (14, "F", ["Ada Ebb and Charles", "P. Neap"]),
        (12, "B", ["Ada Ebb", "Institute of Tides", "3 de mayo de 2010"]), (14, "B", ["Ada Ebb", "Version 0.71"]),
    ],
)  # fmt: skip
def test_authors_versions_and_dates_below_a_title_are_text(size: float, font: str, lines: list[str]) -> None:
    text = LINES if font == "F" else []
    front = [Words(72, 760 - 40 * at, line, size, font) for at, line in enumerate(lines)]
    numbered = column(("1 Banks", 14, "B"), ("1.1 Mud", 12, "B"), ("2 Beds", 14, "B"), top=600)
    parsed = read([Words(72, 800, "A river", 20, "B"), *front, *paragraph(72, 680, text), *numbered])
    assert (parsed.title, names(parsed)) == ("A river", ["1 Banks", "1.1 Mud", "2 Beds"])
    assert parsed.sections[0].text == "\n\n".join([*lines, " ".join(text)]).strip()


@pytest.mark.parametrize(
    "line",
    [
        *(Words(72, 0, text, 10, "B") for text in ("Note", "Semantics:", "-b, --backend", "# make it", "a@b:~$ ls")),
        Words(72, 0, "Avertissement", 12, "B"), Words(72, 0, "X X f n", 14, "B"),
        Words(72, 0, "load_gauge(name)", 14, "T"), Words(131, 0, "Storage daemon", 10, "B"),
    ],
    ids=lambda line: line.text,
)  # fmt: skip
def test_boxes_options_formulas_code_and_words_of_pictures_are_no_headings(line: Words) -> None:
    parsed = read(sections(line))
    assert names(parsed) == [HIGH, LOW] and line.text in parsed.sections[1].text


def test_bold_lines_and_code_apart_from_the_text_are_headings_and_terms_of_a_list_are_none() -> None:
    for text in ("[2016/05/16 v0.2]", "How to install gates."):
        assert names(read(sections(Words(72, 0, text, 10, "B")))) == [HIGH, LOW, text]
    short = enumerate(("Where", "At the harbour", "When", "At noon"))
    page = [Words(72, 740 - 30 * at, line, 12, "BF"[at % 2]) for at, line in short]
    assert names(read([Words(72, 790, "A river", 20, "B"), *page])) == ["Where", "When"]
    page = [*sections(), Words(72, 630, "3.1.2", 10, "B"), Words(102, 630, "load_gauge()", 10, "C")]
    page += [Words(72, 610, "gauge load_gauge(name)", 10, "C"), *paragraph(72, 590, LINES)]
    assert names(read(page)) == [HIGH, LOW, "3.1.2 load_gauge()"]
    # Letters set lower and higher stay in their word.
    for low in (627, 625.5):
        logo = [Words(72, 630, "The L", 14, "B"), Words(107, 633, "A", 9, "B"), Words(113, 630, "T", 14, "B")]
        logo += [Words(122, low, "E", 14, "B"), Words(131, 630, "X of tides", 14, "B")]
        assert names(read([*sections(), *logo, *paragraph(72, 610, LINES)]))[-1] == "The LATEX of tides"
    terms = [Words(72, 0, "Ebb gate", 10, "B"), Words(72, 0, "Flood gate", 10, "B")]
    assert names(read(sections(*terms, below=96))) == [HIGH, LOW]
    # Where all headings stand out to the left, these do not differ from the others.
    hanging = [Words(one.left + 24 * (one.font == "F"), one.base, one.text, one.size, one.font)
               for one in sections(*terms)]  # fmt: skip
    assert names(read(hanging)) == [HIGH, LOW, "Ebb gate", "Flood gate"]


def test_numbers_in_words_and_headings_of_slides_that_go_on_are_left_out_and_counted() -> None:
    page = [Words(460, 780, "TWO", 14, "B"), *column((HIGH, 14, "B"), top=740)]
    parsed = read(sections(), page)
    assert names(parsed) == [HIGH, LOW, HIGH] and parsed.metadata["dropped_elements"] == {"number in words": 1}
    # A label stands in front of its heading.
    parsed = read(sections(), [Words(72, 780, "Capítulo 2", 14, "B"), *page[1:]])
    assert names(parsed) == [HIGH, LOW, f"Capítulo 2 {HIGH}"]
    parsed = read(sections(), *[[Words(72, 700, HIGH, 20, "B"), *paragraph(72, 660, [line])] for line in LINES])
    assert names(parsed) == [HIGH, LOW, HIGH] and all(line in parsed.sections[2].text for line in LINES)
    assert parsed.metadata["dropped_elements"] == {"running head": 2}


def test_code_in_a_line_breaks_neither_a_heading_nor_a_paragraph() -> None:
    heading = [Words(72, 760, "Calling", 14, "B"), Words(122, 760, "gauge.read()", 14, "C")]
    line = [Words(72, 740, "One line calls"), Words(132, 740, "gauge.read()", 10, "C")]
    line += [Words(207, 740, "and a second line tells what came of it, in words that fill")]
    parsed = read([*heading, Words(230, 760, "by night", 14, "B"), *line, *paragraph(72, 728, LINES)])
    assert parsed.title == "Calling gauge.read() by night"
    expected = "One line calls gauge.read() and a second line tells what came of it, in words that fill"
    assert body(parsed) == f"{expected} {TEXT}"


def test_columns_are_read_one_after_the_other_and_tables_row_by_row() -> None:
    left, right = (
        [f"{side} side, line {number} of its column, filled to the gutter" for number in range(12)]
        for side in ("left", "right")
    )
    first = [Words(150, 780, "Over both columns", 18, "B"), *paragraph(60, 740, left), *paragraph(312, 740, right)]
    expected = " ".join([*left, *right])
    assert body(read(first)) == expected
    # Sorted from top to bottom, as some programs write them.
    assert body(read(sorted(first, key=lambda words: (-words.base, words.left)))) == expected
    rows = [("Gauge", "Spring", "Neap"), ("Upper", "4.1", "2.9"), ("Lower", "5.3", "3.8"), ("Bar", "6.0", "4.4")]
    cells = [Words(72 + 120 * at, 640 - 14 * row, one) for row, line in enumerate(rows) for at, one in enumerate(line)]
    parsed = read([*paragraph(72, 740, LINES), *cells, *paragraph(72, 560, LINES)])
    assert "\n".join("\t".join(row) for row in rows) in body(parsed)


def test_justified_lines_of_few_words_are_no_tables() -> None:
    def justified(left: float, base: float, word: str, step: float, **look: Any) -> list[Words]:
        return [Words(left + step * at, base, word, **look) for at in range(4)]

    left, right = (
        [words for row in range(12) for words in justified(place, 700 - 12 * row, word, 70)]
        for place, word in ((60, "riverbed"), (330, "seacoast"))
    )
    heading = [*justified(60, 520, "BAY", 71.5, size=14.0, font="B"), Words(60, 504, "everywhere", 14.0, "B")]
    below = [Words(60, 480, "The river rises twice a day and falls")]
    parsed = parse_pdf(write_pdf([[Words(60, 780, "Tides", 18, "B"), *left, *heading, *right, *below]]))
    assert [name for _, name in headings(parsed)] == ["BAY BAY BAY BAY everywhere"]
    assert parsed.sections[0].text == " ".join(["riverbed"] * 48)
    assert " ".join(["seacoast"] * 48) in parsed.sections[1].text


@pytest.mark.parametrize("called", ["Contents", "Indice generale"])
def test_running_heads_page_numbers_and_contents_are_left_out_and_counted(called: str) -> None:
    contents = [Words(72, 700 - 14 * at, f"Part {at} . . . . . . . . . . . . . . . {at}") for at in range(1, 5)]
    # A list of one table follows, whatever its name.
    tables = [Words(72, 620, "Gauges", 14, "B"), Words(72, 600, "Gauge 1 . . . . . . . . . . . . . . . 3")]
    pages = [[Words(72, 740, called, 14, "B"), *contents, *tables]]
    for number in range(1, 5):
        around = [Words(72, 800, "Notes on a river"), Words(290, 40, str(number))]
        pages.append([around[0], *column((f"Part {number}", 14, "B"), top=740), around[1]])
    # What a terminal shows is none.
    shown = [f"Gate {number} closes{dots}" for number in range(4) for dots in (" ...", "....... done")]
    pages[-1] += paragraph(72, 600, shown)
    parsed = read(*pages)
    assert headings(parsed) == [(1, f"Part {number}") for number in range(1, 5)]
    assert [section.text for section in parsed.sections[:3]] == [TEXT] * 3
    assert parsed.sections[3].text == "\n\n".join([TEXT, *shown])
    assert parsed.metadata["dropped_elements"] == {"page number": 4, "running head": 4, "table of contents": 7}


def test_a_paragraph_goes_on_over_pages_and_words_over_lines() -> None:
    last = "The gauge stands at the mouth of the harbour, and its keeper writes down what it says in em-"
    first = [*paragraph(72, 760, LINES * 18), Words(72, 112, last)]
    goes_on = "bankments of ink, a well-known habit of keepers, and then goes home for the"
    text = body(read(first, paragraph(72, 760, [goes_on])))
    assert text.endswith(f"what it says in em-{goes_on}")
    # In a text that breaks its words the hyphen goes, but not that of a word that has one.
    broken = ["The water lifts the boats and the embank-", "ments hold; it is a well-",
              "known thing, and well-known to all of the state-of-", "the-art."]  # fmt: skip
    text = body(read(paragraph(72, 760, broken * 3)))
    assert text.count("embankments hold; it is a well-known thing") == text.count("state-of-the-art") == 3


def test_hyphens_that_break_no_line_and_words_that_lie_askew_are_whole() -> None:
    lines = ["A well~known thing is a self~", "evident rule of the state~of~the~", "art."]
    text = body(read([Words(72, 700 - 12 * at, text, 10, "H") for at, text in enumerate(lines)]))
    assert text == "A well-known thing is a self-evident rule of the state-of-the-art."
    for turned in (20, 45, 60, -45):
        words = [Words(100 + 20 * at, 400 - 30 * at, line, 10, "F", turned) for at, line in enumerate(LINES)]
        assert body(read(words)).split() == TEXT.split()
    page = [*paragraph(72, 700, LINES), *column(("Tides", 20, "B")), Words(150, 150, "DRAFT", 60, "B", 45)]
    assert read(page).title == "Tides" and body(read(page)).endswith("DRAFT")


def test_letters_apart_stand_in_words_and_those_of_japanese_have_no_spaces() -> None:
    apart = [Words(72 + 9 * at, 740, letter) for at, letter in enumerate("LOCKS")]
    assert read([*apart, *paragraph(72, 700, LINES)]).title == "LOCKS"
    lines = [Words(72, 700 - 12 * at, line, 10, "J") for at, line in enumerate(("!" * 40, "#" * 9))]
    assert body(read(lines)) == "あ" * 40 + "い" * 9
    # Columns run from the right to the left.
    upright = [Words(300 - 14 * (at // 8), 700 - 10 * (at % 8), chr(33 + 2 * at), 10, "J") for at in range(24)]
    assert body(read(upright)) == "".join(chr(0x3042 + 2 * at) for at in range(24))


def test_slanted_words_stand_apart_accents_stand_on_their_letters_and_entries_are_whole() -> None:
    slanted = [Words(72, 700, "True if"), Words(101.99, 700, "file exists.", 10, "I")]
    accents = [Words(72, 680, "La instrucci\xb4\bon \xb4 y `\ba"), Words(72, 660, "EL"), Words(73.4, 662.4, "\xb4")]
    lines = ["The command is read from the first argument, and all that follows is its posi-", "tional arguments."]
    entry = [Words(72, 640, "-c"), *paragraph(108, 640, lines)]
    text = body(read([*slanted, *accents, *entry, *paragraph(72, 560, LINES * 4)]))
    assert "True if file exists." in text and "La instrucción ´ y à" in text and "ÉL" in text
    assert "-c The command is read from the first argument, and all that follows is its positional arguments." in text


def test_notes_follow_their_paragraph_without_marks() -> None:
    first = [Words(72, 760, "The river rises twice a day"), Words(185.5, 764, "1", 6)]
    first += [Words(190, 760, "and falls as often, and whoever lives beside it learns its hours.")]
    first += [*paragraph(72, 740, LINES), Words(72, 75, "1", 6), Words(76, 72, "Seen from the bridge.", 8)]
    text = body(read(first, paragraph(72, 760, LINES)))
    assert "a day and falls" in text and text.index("Seen from the bridge.") < text.rindex("The river rises")


def three_pages() -> bytes:
    return write_pdf([paragraph(72, 760, [f"Page {number}: {line}" for line in LINES]) for number in range(3)])


def test_lost_pages_damaged_parts_a_missing_end_and_cut_strings_are_said() -> None:
    content = three_pages()
    kids = content[content.index(b"/Kids") :].split(b"]")[0].split(b"[")[1].split(b" 0 R")
    head = b"\n" + kids[1].strip() + b" 0 obj\n<< /Type /Pag"
    assert head in content
    parsed = parse_pdf(content.replace(head + b"e", head + b"_"))
    assert "Page 0" in body(parsed) and warned(parsed, "pages lost: 2 of 3")
    content = write_pdf([paragraph(72, 760, LINES * 15), paragraph(72, 760, LINES)])
    assert "warnings" not in parse_pdf(content).metadata
    first = content.rindex(b"stream", 0, content.index(b"/Type /Page /Parent"))
    start = content.rindex(b"\nstream\n", 0, first) + 60
    assert warned(parse_pdf(content[:start] + b"\0" * 20 + content[start + 20 :]), "1 compressed part is damaged")
    assert warned(parse_pdf(content[: content.index(b"trailer")]), "end of the file is missing")
    long = "".join(f"word{number} " for number in range(5000))
    assert warned(read([Words(72, 760, long, 0.05), *paragraph(72, 700, LINES)]), "32,767")


def test_a_page_that_ends_the_process_costs_one_page(monkeypatch: Patch) -> None:
    content, ask = three_pages(), file_process._Process.ask

    def ask_and_die(self: Any, request: dict[str, Any], *rest: Any, **named: Any) -> dict[str, Any]:
        if request.get("number") == 1 and self.running is not None:
            self.running.kill()
            self.running.wait()
        return ask(self, request, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(file_process._Process, "ask", ask_and_die)
        parsed = parse_pdf(content)
    assert "Page 0" in body(parsed) and "Page 2" in body(parsed)
    assert warned(parsed, "pages lost: 2 of 3", "SIGKILL") and "warnings" not in parse_pdf(content).metadata


def test_the_library_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "river.pdf"
    path.write_bytes(write_pdf([paragraph(72, 760, LINES)]))
    code = (
        "import os, sys\n"
        "from graphdoc import Document\n"
        "from graphdoc.documents.parsing.pdf.file_process import _process\n"
        f"first = Document.from_file({str(path)!r})\n"
        "pid = _process.running.pid\n"
        f"if os.fork() == 0: os._exit(Document.from_file({str(path)!r}) != first or _process.running.pid == pid)\n"
        f"assert os.wait()[1] == 0 and Document.from_file({str(path)!r}) == first and _process.running.pid == pid\n"
        "assert 'pypdfium2' not in sys.modules\n"
        "print(pid)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(result.stdout), 0)


FILES, MADE = (Path(__file__).parent / name for name in ("right_to_left", "files"))
ARABIC = (
    "وقال مدير الميناء إن المد قد تحول قبل الظهر، ولا يمكن لأي سفينة "
    "المغادرة حتى المساء. في عام 1953 أغلقت البوابات 11 مرة (انظر الجدول 2) وكتبت صحيفة New York Times عن ذلك."
)
HEBREW = (
    "מנהל הנמל כתב שהגאות פנתה לפני הצהריים ושום אונייה לא תוכל לצאת עד הערב (ראו פרק 3). בשנת 1953 נסגרו השערים 11 "
    'פעמים – כך לפי "הארץ" ו-Washington Post.'
)
TWO_DIRECTIONS = (
    "מנהל הנמל כתב (English text here) ושום אונייה לא תוכל לצאת עד הערב, כך לפי New York Times."
    "|והשערים נסגרו בשנת 1953 ונפתחו שוב בבוקר, כאשר הגאות ירדה והסירות שבו אל הנמל."
    "|Smith, J. (2001). The tides of גאות in the North Sea. Journal of Tides, 45-67."
)
ENGLISH = "The harbour master wrote שלום עולם in his log, and the reply مرحبا بالعالم came (in 1953) before noon."


@pytest.mark.parametrize(
    ("name", "title", "paragraphs"),
    [
        (
            "report",
            "דוח על הגאות",
            [
                "מנהל הנמל כתב שהגאות פנתה לפני הצהריים ושום אונייה לא "
                "תוכל לצאת עד הערב. בשנת 1953 נסגרו השערים 11 פעמים.",
                "كتب مدير الميناء أن المد قد تحول قبل الظهر ولا يمكن لأي "
                "سفينة المغادرة حتى المساء. درجة الحرارة 25 مئوية. המודל BERT קורא טקסט (English) בתוך שורה.",
            ],
        ),
        ("signs_and_names", "דוח על הגאות", [ARABIC, HEBREW]),
        ("words_in_english", "Report", [ENGLISH, ENGLISH]),
        ("two_directions", "דוח על הגאות", TWO_DIRECTIONS.split("|")),
    ],
)
def test_letters_words_and_signs_stand_as_they_are_read(name: str, title: str, paragraphs: list[str]) -> None:
    document = Document.from_file(FILES / f"{name}.pdf")
    assert document.title == title and document.text.split("\n\n") == paragraphs


def test_scans_and_text_in_a_font_without_meanings_are_refused_and_such_pages_are_named() -> None:
    with pytest.raises(DocumentError, match=r"scan.*2 pages are pictures.*ocrmypdf"):
        parse_pdf(write_pdf([[], []], pictures=[0, 1]))
    assert warned(parse_pdf(write_pdf([paragraph(72, 760, LINES), [], []], pictures=[1, 2])), "2-3", "OCR")
    unreadable = [Words(one.left, one.base, one.text, one.size, "U") for one in paragraph(72, 760, LINES)]
    with pytest.raises(DocumentError, match=r"fonts.*ocrmypdf"):
        read(unreadable, unreadable)
    parsed = read(paragraph(72, 760, LINES), unreadable)
    assert [section.text for section in parsed.sections] == [TEXT] and warned(parsed, "pages left out", ": 2")
    # A bullet of a font of symbols leaves the page as it is.
    parsed = read([*paragraph(72, 760, LINES), Words(72, 700, "!", 10.0, "U")])
    assert parsed.sections[0].text.startswith(LINES[0]) and "warnings" not in parsed.metadata


def words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


@pytest.mark.parametrize("path", sorted(MADE.glob("*.pdf")), ids=lambda path: path.stem)
def test_headings_and_text_are_those_of_the_source(path: Path) -> None:
    known = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    document = Document.from_file(path)
    headings = [section.heading for section in document.sections if section.heading]
    # A heading that stands for the title as well counts once.
    names = [words(name) for name in dict.fromkeys((document.title, *headings)) if name]
    assert names == [words(name) for name in (known["title"], *(text for _, text in known["headings"]))]
    body = Counter(words(known["body"]))
    lost = body - Counter(words(document.text))
    assert lost.total() <= 0.005 * body.total(), lost
    surplus = Counter(words(document.text)) - body
    # The names of author and month below the title of LaTeX are text as well.
    allowed = {"the", "project", "november", "2026", "riffraff"}
    assert all(word in allowed or word.isdigit() for word in surplus), surplus
