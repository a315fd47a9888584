"""PDF files written line by line, so that a test knows where every word stands and how it looks."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, radians, sin

_FONTS = {"F": "Times-Roman", "B": "Times-Bold", "I": "Times-Italic", "C": "Courier", "H": "Helvetica", "T": "SFTC1000"}

LINES = [
    "The river rises twice a day and falls as often, and whoever lives beside it learns its",
    "hours before the alphabet. Boats lie on the mud in the forenoon, and by lunch they have",
    "turned on their anchors to look the other way, as if they had heard something new.",
]


@dataclass(frozen=True)
class Words:
    """Words on a page.

    Args:
        left: of the first letter, in points from the left edge.
        base: height of the base line from the lower edge.
        text: in Latin 1; after a backspace, letters stand under the accent before it.
        size: of the letters.
        font: ``F`` Times, ``B`` bold, ``I`` italic, ``C`` Courier, ``T`` LaTeX's typewriter in capitals, ``H``
            Helvetica, where ``~`` is U+2011, ``U`` whose codes have no meaning, ``J`` Japanese letters from ``!`` on.
        turned: degrees against the clock.
    """

    left: float
    base: float
    text: str
    size: float = 10.0
    font: str = "F"
    turned: float = 0.0


def paragraph(left: float, top: float, lines: Sequence[str], leading: float = 12.0, size: float = 10.0) -> list[Words]:
    """Lines one below the other."""
    return [Words(left, top - number * leading, line, size) for number, line in enumerate(lines)]


def write_pdf(
    pages: Sequence[Sequence[Words]],
    *,
    outline: Sequence[tuple[str, int]] = (),
    title: str = "",
    pictures: Sequence[int] = (),
) -> bytes:
    """A PDF file.

    Args:
        pages: what stands on them, A4.
        outline: entries with their page, from 0.
        title: of the file.
        pictures: pages, from 0, that a picture covers.
    """
    objects: list[bytes] = []

    def add(content: bytes) -> int:
        objects.append(content)
        return len(objects)

    def add_stream(head: str, content: bytes) -> int:
        packed = zlib.compress(content)
        head = f"<< {head} /Filter /FlateDecode /Length {len(packed)} >>\nstream\n"
        return add(head.encode("latin-1") + packed + b"\nendstream")

    add(b"")  # the catalogue
    add(b"")  # the tree of pages
    fonts = {
        key: add(f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode("ascii"))
        for key, name in _FONTS.items()
    }
    other = b"/Encoding << /BaseEncoding /WinAnsiEncoding /Differences [126 /uni2011] >>"
    objects[fonts["H"] - 1] = objects[fonts["H"] - 1].replace(b"/Encoding /WinAnsiEncoding", other)
    # Codes for private use, as those have whose fonts keep nothing but drawings of letters.
    for key, first in (("U", "e021"), ("J", "3042")):
        ranges = f"1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <21> <7e> <{first}> endbfrange"
        meaning = add_stream("", ranges.encode("ascii"))
        fonts[key] = add(f"<< /Type /Font /Subtype /Type1 /BaseFont /Drawn /ToUnicode {meaning} 0 R >>".encode("ascii"))
    names = " ".join(f"/{key} {number} 0 R" for key, number in fonts.items())
    picture = add_stream(
        "/Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceGray /BitsPerComponent 8", b"\0\xff\xff\0"
    )
    kids = []
    for number, page in enumerate(pages):
        parts = [
            f"BT /{words.font} {words.size} Tf {(turn := cos(radians(words.turned)))} {sin(radians(words.turned))} "
            f"{-sin(radians(words.turned))} {turn} {words.left} {words.base} Tm [({_escaped(words.text)})] TJ ET"
            for words in page
        ]
        if number in pictures:
            parts.insert(0, "q 595 0 0 842 0 0 cm /P Do Q")
        content = add_stream("", "\n".join(parts).encode("latin-1"))
        resources = f"<< /Font << {names} >> /XObject << /P {picture} 0 R >> >>"
        head = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources {resources} /Contents {content} 0 R >>"
        kids.append(add(head.encode("ascii")))
    catalogue = "<< /Type /Catalog /Pages 2 0 R"
    if outline:
        root = len(objects) + 1
        add(f"<< /First {root + 1} 0 R /Last {root + len(outline)} 0 R /Count {len(outline)} >>".encode("ascii"))
        for place, (text, page_number) in enumerate(outline, start=1):
            links = f"/Prev {root + place - 1} 0 R " if place > 1 else ""
            links += f"/Next {root + place + 1} 0 R " if place < len(outline) else ""
            entry = f"<< /Title ({_escaped(text)}) /Parent {root} 0 R {links}/Dest [{kids[page_number]} 0 R /Fit] >>"
            add(entry.encode("latin-1"))
        catalogue += f" /Outlines {root} 0 R"
    objects[0] = f"{catalogue} >>".encode("ascii")
    listed = " ".join(f"{number} 0 R" for number in kids)
    objects[1] = f"<< /Type /Pages /Kids [{listed}] /Count {len(kids)} >>".encode("ascii")
    info = add(f"<< /Title ({_escaped(title)}) >>".encode("latin-1"))
    written = bytearray(b"%PDF-1.5\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(written))
        written += f"{number} 0 obj\n".encode("ascii") + body + b"\nendobj\n"
    start = len(written)
    written += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode("ascii")
    written += b"".join(f"{place:010d} 00000 n \n".encode("ascii") for place in places)
    written += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {info} 0 R >>\n".encode("ascii")
    written += f"startxref\n{start}\n%%EOF\n".encode("ascii")
    return bytes(written)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)").replace("\b", ") 416 (")
