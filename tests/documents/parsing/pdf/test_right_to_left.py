"""Scripts from right to left, and fonts that do not say which letters they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from pdf_files import LINES, Words, paragraph, write_pdf

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.pdf.reader import parse_pdf
from graphdoc.errors import DocumentError

FILES = Path(__file__).parent / "right_to_left"
ARABIC = (
    "وقال مدير الميناء إن المد قد تحول قبل الظهر، ولا يمكن لأي سفينة "
    "المغادرة حتى المساء. في عام 1953 أغلقت البوابات 11 مرة "
    "(انظر الجدول 2) وكتبت صحيفة New York Times عن ذلك."
)
HEBREW = (
    "מנהל הנמל כתב שהגאות פנתה לפני הצהריים ושום אונייה לא תוכל "
    "לצאת עד הערב (ראו פרק 3). בשנת 1953 נסגרו השערים 11 "
    'פעמים – כך לפי "הארץ" ו-Washington Post.'
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
                "سفينة المغادرة حتى المساء. درجة الحرارة 25 مئوية. "
                "המודל BERT קורא טקסט (English) בתוך שורה.",
            ],
        ),
        ("signs_and_names", "דוח על הגאות", [ARABIC, HEBREW]),
        ("words_in_english", "Report", [ENGLISH, ENGLISH]),
    ],
)
def test_letters_words_numbers_and_brackets_stand_as_they_are_read(
    name: str, title: str, paragraphs: list[str]
) -> None:
    document = Document.from_file(FILES / f"{name}.pdf")
    assert document.title == title
    assert document.text.split("\n\n") == paragraphs


def unreadable(top: int) -> list[Words]:
    return [Words(words.left, words.base, words.text, words.size, "U") for words in paragraph(72, top, LINES)]


def test_text_in_a_font_without_meanings_is_refused_and_such_pages_are_left_out_and_named() -> None:
    with pytest.raises(DocumentError, match=r"fonts.*ocrmypdf"):
        parse_pdf(write_pdf([unreadable(760), unreadable(760)]))
    parsed = parse_pdf(write_pdf([paragraph(72, 760, LINES), unreadable(760)]))
    assert [section.text for section in parsed.sections] == [" ".join(LINES)]
    assert any("pages left out" in warning and warning.count(": 2") for warning in parsed.metadata["warnings"])


def test_a_bullet_of_a_font_of_symbols_leaves_the_page_as_it_is() -> None:
    parsed = parse_pdf(write_pdf([[*paragraph(72, 760, LINES), Words(72, 700, "!", 10.0, "U")]]))
    assert parsed.sections[0].text.startswith(LINES[0])
    assert "warnings" not in parsed.metadata
