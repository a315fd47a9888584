from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pdf_files import LINES, Words, paragraph, write_pdf

from graphdoc.documents.parsing.outline import ParsedDocument
from graphdoc.documents.parsing.pdf import file_process
from graphdoc.documents.parsing.pdf.reader import parse_pdf
from graphdoc.errors import DocumentError

TEXT = " ".join(LINES)


def headings(parsed: ParsedDocument) -> list[tuple[int, str]]:
    return [(section.level, section.heading) for section in parsed.sections if section.heading]


def body(parsed: ParsedDocument) -> str:
    return "\n\n".join(section.text for section in parsed.sections)


def page(*blocks: list[Words] | Words) -> list[Words]:
    return [words for block in blocks for words in (block if isinstance(block, list) else [block])]


def test_sizes_weights_and_spaces_make_headings() -> None:
    first = page(
        Words(72, 760, "A river in two moods", 20, "B"),
        paragraph(72, 720, LINES),
        Words(72, 660, "High water", 14, "B"),
        paragraph(72, 640, LINES),
        Words(72, 580, "At body size", 10, "B"),
        paragraph(72, 565, LINES),
        Words(72, 505, "Slanted", 10, "I"),
        paragraph(72, 488, LINES),
        Words(72, 425, "Low water", 14, "B"),
        paragraph(72, 405, LINES),
        Words(72, 345, "Slanted again", 10, "I"),
        paragraph(72, 328, LINES),
    )
    parsed = parse_pdf(write_pdf([first]))
    assert parsed.title == "A river in two moods"
    assert headings(parsed) == [
        (2, "High water"),
        (3, "At body size"),
        (4, "Slanted"),
        (2, "Low water"),
        (4, "Slanted again"),
    ]
    assert [section.text for section in parsed.sections] == [TEXT] * 6


def test_numbers_give_levels_and_lists_are_no_headings() -> None:
    first = page(
        Words(72, 760, "1 Banks", 12, "B"),
        paragraph(72, 740, LINES),
        Words(72, 690, "1.1 Mud", 12, "B"),
        paragraph(72, 670, LINES),
        Words(90, 620, "1. Take a spade."),
        Words(90, 608, "2. Wait for the ebb."),
        Words(72, 580, "2 Beds", 12, "B"),
        paragraph(72, 560, LINES),
    )
    parsed = parse_pdf(write_pdf([first]))
    assert headings(parsed) == [(1, "1 Banks"), (2, "1.1 Mud"), (1, "2 Beds")]
    assert "1. Take a spade.\n2. Wait for the ebb." in parsed.sections[1].text


def test_a_larger_number_alone_heads_a_chapter() -> None:
    first = page(Words(72, 780, "A river", 20, "B"), Words(72, 750, "IV", 14, "B"), paragraph(72, 730, LINES))
    parsed = parse_pdf(write_pdf([page(first, Words(290, 40, "12"))]))
    assert (parsed.title, headings(parsed), body(parsed)) == ("A river", [(2, "IV")], TEXT)


def test_code_in_a_line_breaks_neither_a_heading_nor_a_paragraph() -> None:
    first = page(
        Words(72, 760, "Calling", 14, "B"),
        Words(122, 760, "gauge.read()", 14, "C"),
        Words(230, 760, "by night", 14, "B"),
        Words(72, 740, "One line calls"),
        Words(132, 740, "gauge.read()", 10, "C"),
        Words(207, 740, "and a second line tells what came of it, in words that fill"),
        paragraph(72, 728, LINES),
    )
    parsed = parse_pdf(write_pdf([first]))
    assert parsed.title == "Calling gauge.read() by night"
    expected = "One line calls gauge.read() and a second line tells what came of it, in words that fill"
    assert body(parsed) == f"{expected} {TEXT}"


def test_columns_are_read_one_after_the_other() -> None:
    left, right = (
        [f"{side} side, line {number} of its column, filled to the gutter" for number in range(12)]
        for side in ("left", "right")
    )
    first = page(Words(150, 780, "Over both columns", 18, "B"), paragraph(60, 740, left), paragraph(312, 740, right))
    expected = " ".join([*left, *right])
    assert body(parse_pdf(write_pdf([first]))) == expected
    # Sorted from top to bottom, as some programs write them.
    by_rows = sorted(first, key=lambda words: (-words.base, words.left))
    assert body(parse_pdf(write_pdf([by_rows]))) == expected


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


def test_a_table_is_read_row_by_row() -> None:
    rows = [("Gauge", "Spring", "Neap"), ("Upper", "4.1", "2.9"), ("Lower", "5.3", "3.8"), ("Bar", "6.0", "4.4")]
    cells = [
        Words(72 + 120 * at, 640 - 14 * row, cell) for row, line in enumerate(rows) for at, cell in enumerate(line)
    ]
    parsed = parse_pdf(write_pdf([page(paragraph(72, 740, LINES), cells, paragraph(72, 560, LINES))]))
    assert "\n".join("\t".join(row) for row in rows) in body(parsed)


def test_running_heads_page_numbers_and_contents_are_left_out_and_counted() -> None:
    contents = [Words(72, 700 - 14 * at, f"Part {at} . . . . . . . . . . . . . . . {at}") for at in range(1, 5)]
    pages = [page(Words(72, 740, "Contents", 14, "B"), contents)]
    for number in range(1, 5):
        pages.append(
            page(
                Words(72, 800, "Notes on a river"),
                Words(72, 740, f"Part {number}", 14, "B"),
                paragraph(72, 720, LINES),
                Words(290, 40, str(number)),
            )
        )
    parsed = parse_pdf(write_pdf(pages))
    assert headings(parsed) == [(1, f"Part {number}") for number in range(1, 5)]
    assert [section.text for section in parsed.sections] == [TEXT] * 4
    assert parsed.metadata["dropped_elements"] == {"page number": 4, "running head": 4, "table of contents": 5}


def test_a_paragraph_goes_on_over_pages_and_words_over_lines() -> None:
    first = page(
        [Words(72, 760 - 12 * at, line) for at, line in enumerate(LINES * 18)],
        Words(72, 112, "The gauge stands at the mouth of the harbour, and its keeper writes down what it says in em-"),
    )
    second = page(paragraph(72, 760, ["bankments of ink, a well-known habit of keepers, and then goes home for the"]))
    text = body(parse_pdf(write_pdf([first, second])))
    assert text.endswith(
        "what it says in em-bankments of ink, a well-known habit of keepers, and then goes home for the"
    )
    # In a text that breaks its words the hyphen goes, but not that of a word that has one.
    broken = [
        "The water lifts the boats and the embank-",
        "ments hold; it is a well-",
        "known thing, and well-known to all.",
    ]
    text = body(parse_pdf(write_pdf([page(paragraph(72, 760, broken * 3))])))
    assert text.count("embankments hold; it is a well-known thing") == 3


def test_notes_follow_their_paragraph_without_marks() -> None:
    first = page(
        Words(72, 760, "The river rises twice a day"),
        Words(185.5, 764, "1", 6),
        Words(190, 760, "and falls as often, and whoever lives beside it learns its hours."),
        paragraph(72, 740, LINES),
        Words(72, 75, "1", 6),
        Words(76, 72, "Seen from the bridge.", 8),
    )
    second = page(paragraph(72, 760, LINES))
    text = body(parse_pdf(write_pdf([first, second])))
    assert "a day and falls" in text
    assert text.index("Seen from the bridge.") < text.rindex("The river rises")


def test_the_outline_counts_and_useless_ones_do_not() -> None:
    first = page(Words(72, 760, "plainly set"), paragraph(72, 746, LINES), Words(72, 690, "quite", 14, "B"))
    first += page(paragraph(72, 676, LINES))
    parsed = parse_pdf(write_pdf([first], outline=[("plainly set", 0), ("Page 1", 0)]))
    assert "plainly set" in [parsed.title, *(heading for _, heading in headings(parsed))]


def test_a_scan_says_what_it_is() -> None:
    with pytest.raises(DocumentError, match=r"scan.*2 pages are pictures.*ocrmypdf"):
        parse_pdf(write_pdf([[], []], pictures=[0, 1]))
    parsed = parse_pdf(write_pdf([page(paragraph(72, 760, LINES)), [], []], pictures=[1, 2]))
    assert any("2-3" in warning and "OCR" in warning for warning in parsed.metadata["warnings"])


def test_pages_that_are_lost_are_named() -> None:
    content = write_pdf(
        [page(paragraph(72, 760, [f"Page {number}: {line}" for line in LINES])) for number in range(3)]
    )
    kids = content[content.index(b"/Kids") :].split(b"]")[0].split(b"[")[1].split(b" 0 R")
    second = kids[1].strip()
    damaged = content.replace(b"\n" + second + b" 0 obj\n<< /Type /Page", b"\n" + second + b" 0 obj\n<< /Type /Pag_")
    assert damaged != content
    parsed = parse_pdf(damaged)
    assert "Page 0" in body(parsed)
    assert any("pages lost: 2 of 3" in warning for warning in parsed.metadata["warnings"])


def test_damaged_parts_and_a_missing_end_are_said() -> None:
    content = write_pdf([page(paragraph(72, 760, LINES * 15)), page(paragraph(72, 760, LINES))])
    assert "warnings" not in parse_pdf(content).metadata
    first = content.rindex(b"stream", 0, content.index(b"/Type /Page /Parent"))
    start = content.rindex(b"\nstream\n", 0, first) + 60
    damaged = content[:start] + b"\0" * 20 + content[start + 20 :]
    parsed = parse_pdf(damaged)
    assert any("1 compressed part is damaged" in warning for warning in parsed.metadata["warnings"])
    parsed = parse_pdf(content[: content.index(b"trailer")])
    assert any("end of the file is missing" in warning for warning in parsed.metadata["warnings"])


def test_a_page_that_ends_the_process_costs_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_pdf(
        [page(paragraph(72, 760, [f"Page {number}: {line}" for line in LINES])) for number in range(3)]
    )
    ask = file_process._Process.ask

    def ask_and_die(self: Any, request: dict[str, Any], *rest: Any, **named: Any) -> dict[str, Any]:
        if request.get("number") == 1 and self.running is not None:
            self.running.kill()
            self.running.wait()
        return ask(self, request, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(file_process._Process, "ask", ask_and_die)
        parsed = parse_pdf(content)
    assert "Page 0" in body(parsed)
    assert "Page 2" in body(parsed)
    assert any("pages lost: 2 of 3" in warning and "SIGKILL" in warning for warning in parsed.metadata["warnings"])
    assert "warnings" not in parse_pdf(content).metadata


def test_the_library_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "river.pdf"
    path.write_bytes(write_pdf([page(paragraph(72, 760, LINES))]))
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


def test_strings_that_the_library_cuts_are_said() -> None:
    long = "".join(f"word{number} " for number in range(5000))
    parsed = parse_pdf(write_pdf([[Words(72, 760, long, 0.05), *paragraph(72, 700, LINES)]]))
    assert any("32,767" in warning for warning in parsed.metadata["warnings"])
