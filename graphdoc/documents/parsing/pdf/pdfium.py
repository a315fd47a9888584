"""What PDFium says of a PDF file: its pages as pieces of text with place and style, its outline, its title.

Runs in the process of ``pdfium_program``, because a hostile file may bring the library down.
"""

from __future__ import annotations

import ctypes
import math
import re
import statistics
import sys
from typing import Any

import pypdfium2.raw as pdfium

from .characters import ACCENTS, accented, is_ideographic, is_private, is_right_to_left, is_unknown, with_accents_joined

_FIXED, _ITALIC, _SMALL_CAPITALS, _FORCED_BOLD = 1, 1 << 6, 1 << 17, 1 << 18
_BOLD_WEIGHT = 600
# NimbusRomNo9L-Medi is the bold of Times; CMBX and SFBX are Computer Modern's.
_BOLD = re.compile(r"bold|black|heavy|(?<![a-z])demi|-medi(?![a-z])|\bbd\b|^(?:CMB|SFB|ECB|LMB)", re.IGNORECASE)
_ITALICS = re.compile(r"ital|obli|slant|^(?:CM(?:TI|SL|BXTI)|SF(?:TI|SL|BI)|EC(?:TI|SL|BI))|ReguItal", re.IGNORECASE)
_FIXED_WIDTH = re.compile(r"courier|mono|consol|menlo|typewriter|^(?:CM|SF|EC)(?:TT|TC|SLTT|ITT|VTT)", re.IGNORECASE)
_CAPITALS = re.compile(r"smallcap|-sc\b|^(?:CM|SF|EC)(?:C?CSC|XC)|Caps\d*", re.IGNORECASE)
_REGULAR = re.compile(r"regu|book|light|roman|medium|normal|thin", re.IGNORECASE)
_SUBSET = re.compile(r"^[A-Z]{6}\+")


def _font_traits(name: str, flags: int, weight: int, angle: int) -> dict[str, Any]:
    name = _SUBSET.sub("", name)
    flags = max(flags, 0)
    # A library guesses the weight from the width of stems; where the name says it, the name counts.
    heavy = weight >= _BOLD_WEIGHT or bool(flags & _FORCED_BOLD)
    bold = bool(_BOLD.search(name)) or (heavy and not _REGULAR.search(name))
    return {
        "font": name,
        "bold": bold,
        "italic": bool(_ITALICS.search(name) or flags & _ITALIC or angle),
        "fixed": bool(_FIXED_WIDTH.search(name) or flags & _FIXED),
        "capitals": bool(_CAPITALS.search(name) or flags & _SMALL_CAPITALS),
    }


_DEEPEST_TAG, _MOST_MARKS = 200, 16
_TELLING_TAGS = frozenset({"Title", "H", "H1", "H2", "H3", "H4", "H5", "H6", "TD", "TH", "LI", "Code", "TOCI", "Note"})


def _is_artifact(found: Any) -> bool:
    """Whether an object is marked as none of the text, as running heads are in tagged files."""
    for number in range(min(pdfium.FPDFPageObj_CountMarks(found), _MOST_MARKS)):
        mark = pdfium.FPDFPageObj_GetMark(found, number)
        if mark and read_text(pdfium.FPDFPageObjMark_GetName, mark, sized=True) == "Artifact":
            return True
    return False


def _structure_tags(page: Any) -> dict[int, str]:
    """The structure element of every marked content of a tagged file: headings, cells and the like."""
    tree = pdfium.FPDF_StructTree_GetForPage(page)
    if not tree:
        return {}
    tags: dict[int, str] = {}
    try:
        waiting = [
            (pdfium.FPDF_StructTree_GetChildAtIndex(tree, number), "", 0)
            for number in range(pdfium.FPDF_StructTree_CountChildren(tree))
        ]
        while waiting:
            element, around, depth = waiting.pop()
            if not element or depth > _DEEPEST_TAG:
                continue
            kind = read_text(pdfium.FPDF_StructElement_GetType, element)
            kind = kind if kind in _TELLING_TAGS else around
            for number in range(max(pdfium.FPDF_StructElement_CountChildren(element), 0)):
                inner = pdfium.FPDF_StructElement_GetChildAtIndex(element, number)
                if inner:
                    waiting.append((inner, kind, depth + 1))
                else:
                    content = pdfium.FPDF_StructElement_GetChildMarkedContentID(element, number)
                    if content >= 0:
                        tags[content] = kind
    finally:
        pdfium.FPDF_StructTree_Close(tree)
    return tags


def _largest_picture(page: Any, area: float) -> float:
    largest = 0.0
    for number in range(pdfium.FPDFPage_CountObjects(page)):
        found = pdfium.FPDFPage_GetObject(page, number)
        if pdfium.FPDFPageObj_GetType(found) != pdfium.FPDF_PAGEOBJ_IMAGE:
            continue
        edges = [ctypes.c_float() for _ in range(4)]
        if pdfium.FPDFPageObj_GetBounds(found, *edges):
            left, bottom, right, top = (edge.value for edge in edges)
            largest = max(largest, (right - left) * (top - bottom))
    return min(largest / area, 1.0) if area else 0.0


def read_bytes(call: Any, *arguments: Any) -> bytes:
    """A string of bytes that the library writes into a buffer of the size it names."""
    size = call(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(max(size, 1))
    call(*arguments, buffer, size)
    return buffer.raw[:size].rstrip(b"\0")


def read_text(call: Any, *arguments: Any, sized: bool = False) -> str:
    """A string that the library writes in UTF-16; with ``sized`` it says its length in an argument."""
    length = ctypes.c_ulong()
    end = (length,) if sized else ()
    answer = call(*arguments, None, 0, *end)
    size = length.value if sized else answer
    wide = (ctypes.c_ushort * max(size // 2, 1))()
    call(*arguments, wide, size, *end)
    return bytes(wide)[:size].decode("utf-16-le", "replace").rstrip("\0")


# A gap of this share of the font size is a space; of the larger share also where the library sees none.
_SPACE, _SURE_SPACE = 0.1, 0.13
# Letters of one Arabic word stand up to 0.18 apart where they are not joined.
_SURE_WORDS = 0.25
# Beyond this gap, as in front of a tab or the next column, text goes on as another piece.
_PIECE_GAP = 0.9
_SAME_LINE = 0.05
# Letters of Chinese and Japanese in justified lines and in columns are no further apart.
_SET_APART = 0.35
# Widths differ by more in fonts that are not a typewriter's.
_EQUAL_WIDTHS = 0.04
_DEEPEST_OUTLINE, _LONGEST_OUTLINE = 12, 20_000
# PDFium stops a string there and says nothing.
_LONGEST_STRING = 32_767
_STROKED = 2
# Of a right angle, beyond which text has a direction of its own: this and two for each degree.
_MOST_SKEW, _ASKEW = 0.2, 4
_WHITE = frozenset({0x9, 0xA, 0xD, 0x20, 0xA0, 0x2003, 0x2002, 0x2009, 0x200B})
_LIGATURES = ("ff", "fi", "fl", "ffi", "ffl", "st", "st")
_REPLACED = {0x2: "-", 0xAD: "-", **{0xFB00 + place: text for place, text in enumerate(_LIGATURES)}}

# Fonts of old TeX files have no names and no meanings for their codes; these are the T1 (Cork) encoding's.
_CORK = {0x10: 0x201C, 0x11: 0x201D, 0x15: 0x2013, 0x16: 0x2014, 0x88: 0x2022}
_CORK |= {0x1B + number: 0xFB00 + number for number in range(5)}

_ERRORS = {pdfium.FPDF_ERR_PASSWORD: "password", pdfium.FPDF_ERR_SECURITY: "security", pdfium.FPDF_ERR_FORMAT: "format"}

# Called for every character: with plain numbers in place of typed pointers they take half the time.
_code = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_void_p, ctypes.c_int)(
    ctypes.cast(pdfium.FPDFText_GetUnicode, ctypes.c_void_p).value or 0
)
_object = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
    ctypes.cast(pdfium.FPDFText_GetTextObject, ctypes.c_void_p).value or 0
)
_loose_box = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
    ctypes.cast(pdfium.FPDFText_GetLooseCharBox, ctypes.c_void_p).value or 0
)


class PdfFile:
    """A PDF file in memory.

    Args:
        content: its bytes.

    Raises:
        ValueError: it cannot be opened; ``password``, ``security`` or ``format`` says why.
    """

    def __init__(self, content: bytes) -> None:
        pdfium.FPDF_InitLibrary()
        # The library reads from the buffer as long as the document is open.
        self._content = content
        self._document = pdfium.FPDF_LoadMemDocument64(content, len(content), None)
        self._kept: list[Any] = []
        if not self._document:
            raise ValueError(_ERRORS.get(pdfium.FPDF_GetLastError(), "format"))

    def close(self) -> None:
        """Give the memory back."""
        for page in self._kept:
            pdfium.FPDF_ClosePage(page)
        pdfium.FPDF_CloseDocument(self._document)

    def describe(self) -> dict[str, Any]:
        """Number of pages, title, and the outline as entries with level, text and page (-1 if unknown)."""
        title = read_text(pdfium.FPDF_GetMetaText, self._document, b"Title")
        return {"pages": pdfium.FPDF_GetPageCount(self._document), "title": title, "outline": self._outline()}

    def _outline(self) -> list[tuple[int, str, int]]:
        entries: list[tuple[int, str, int]] = []
        first = pdfium.FPDFBookmark_GetFirstChild(self._document, None)
        waiting = [(first, 1)] if first else []
        seen: set[int] = set()
        while waiting and len(entries) < _LONGEST_OUTLINE:
            mark, level = waiting.pop()
            place = ctypes.cast(mark, ctypes.c_void_p).value or 0
            if place in seen:
                continue
            seen.add(place)
            target = pdfium.FPDFBookmark_GetDest(self._document, mark)
            page = int(pdfium.FPDFDest_GetDestPageIndex(self._document, target)) if target else -1
            entries.append((level, read_text(pdfium.FPDFBookmark_GetTitle, mark), page))
            following = pdfium.FPDFBookmark_GetNextSibling(self._document, mark)
            if following:
                waiting.append((following, level))
            inner = pdfium.FPDFBookmark_GetFirstChild(self._document, mark) if level < _DEEPEST_OUTLINE else None
            if inner:
                waiting.append((inner, level + 1))
        return entries

    def page(self, number: int) -> dict[str, Any]:
        """Text of a page.

        Args:
            number: from 0.

        Returns:
            ``width`` and ``height``; ``pieces`` in the order of the file, each with text, left and right edge, base
            line, style and direction; ``styles``; ``unmapped`` characters; ``unknown``, the share of characters whose
            codes say nothing of a letter; ``cut`` strings; ``pictures``, the share of the page that they cover.

        Raises:
            ValueError: the page cannot be loaded.
        """
        page = pdfium.FPDF_LoadPage(self._document, number)
        if not page:
            raise ValueError("the page is damaged")
        reader = None
        try:
            text = pdfium.FPDFText_LoadPage(page)
            if not text:
                raise ValueError("the text of the page is damaged")
            try:
                reader = _PageReader(page, text)
                reader.read()
            finally:
                pdfium.FPDFText_ClosePage(text)
            width, height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
            return {
                "width": width,
                "height": height,
                "pieces": reader.pieces,
                "styles": reader.styles,
                "unmapped": reader.unmapped,
                "unknown": reader.unknown / max(reader.characters, 1),
                "cut": reader.cut,
                "pictures": _largest_picture(page, width * height) if len(reader.pieces) < _FEW_PIECES else 0.0,
            }
        finally:
            # Fonts without a name are known by their address, which is theirs as long as a page with them is open.
            if reader is not None and reader.has_nameless and len(self._kept) < _KEPT_OPEN:
                self._kept.append(page)
            else:
                pdfium.FPDF_ClosePage(page)


_FEW_PIECES = 40

# What fonts without a name are called, with what tells one from the other.
_NAMELESS = "without a name"
_KEPT_OPEN = 200


class _PageReader:
    def __init__(self, page: Any, text: Any) -> None:
        self._text, self._tags = text, _structure_tags(page)
        self.pieces: list[tuple[str, float, float, float, int, int]] = []
        self.styles: list[dict[str, Any]] = []
        self.unmapped = self.cut = self.characters = self.unknown = 0
        self.has_nameless = False
        # Pieces whose letters are set apart, with the places of what looks like spaces.
        self._apart: list[tuple[int, set[int]]] = []
        # Where capitals are: sum of their edges, height, piece, place in it.
        self._capitals: list[tuple[float, float, int, int]] = []
        # Widths of the characters of fonts without a name, by style.
        self._widths: dict[int, dict[str, float]] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}
        # By address of a text object: style, size, direction.
        self._objects: dict[int, tuple[int, float, int]] = {}
        self._fonts: dict[int, dict[str, Any]] = {}

    def read(self) -> None:
        box, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
        box_at = ctypes.addressof(box)
        text = ctypes.cast(self._text, ctypes.c_void_p).value
        characters: list[str] = []
        # Which of them are spaces that are not in the file, and how wide.
        unseen: dict[int, float] = {}
        space = is_real = False
        spaces = 0
        start = end = left = base = height = 0.0
        current = traits = (-1, 0.0, 0)
        last_object = run = 0
        nameless = is_leftward = False
        rising, tracking, joined = 0, 0.0, ""

        def finish() -> None:
            follows = bool(self._apart) and self._apart[-1][0] == len(self.pieces) - 1
            if 2 * len(unseen) >= len(characters) - len(unseen) and len(unseen) > (0 if follows else 1):
                usual = statistics.median(unseen.values()) + _SPACE * current[1]
                self._apart.append((len(self.pieces), {at for at, gap in unseen.items() if gap < usual}))
            unseen.clear()
            if characters:
                text = "".join(reversed(characters) if 2 * rising > len(characters) - 1 else characters)
                # The library gives the halves of a character one by one.
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
                edges = round(start, 2), round(end, 2), round(base, 2)
                self.pieces.append((text, *edges, current[0], current[2]))
                characters.clear()

        last = pdfium.FPDFText_CountChars(self._text) - 1
        for place in range(last + 1):
            code = _code(text, place)
            # Between words and lines the library puts spaces of its own, which belong to no object.
            if code in _WHITE or not (address := _object(text, place)):
                space = True
                if code in _WHITE and _object(text, place):
                    is_real, spaces = True, spaces + 1
                run += 1
                self.cut += run == _LONGEST_STRING
                continue
            if address != last_object:
                last_object, run = address, 0
                pdfium.FPDFText_GetCharOrigin(self._text, place, x, y)
                if address not in self._objects:
                    self._objects[address] = self._style(ctypes.cast(address, pdfium.FPDF_PAGEOBJECT), place, code)
                traits = self._objects[address]
                nameless = self.styles[traits[0]]["font"].startswith(_NAMELESS)
                height = _along_and_across(x.value, y.value, traits[2])[1] if traits[2] else y.value
            run += 1
            self.cut += run == _LONGEST_STRING
            if nameless:
                code = _CORK.get(code, code)
            character = joined or _REPLACED.get(code) or (chr(code) if 0 < code < 0x110000 else "")
            self.characters += 1
            if not " " <= character <= "~" and is_unknown(code) and code not in _REPLACED:
                self.unknown += 1
                character = character if is_private(code) else ""
            if not character:
                self.unmapped += 1
                character = "\ufffd"
            _loose_box(text, place, box_at)
            edges, joined = _edges(box, traits[2]), ""
            if character in ACCENTS and place < last and _loose_box(text, place + 1, box_at):
                start_of, end_of = _edges(box, traits[2])
                if start_of < sum(edges) / 2 < end_of and (joined := accented(character, _code(text, place + 1))):
                    continue
            if traits[2] >= _ASKEW:
                # Boxes lie along the edges of the page, and those of neighbours overlap.
                pdfium.FPDFText_GetCharOrigin(self._text, place, x, y)
                along = _along_and_across(x.value, y.value, traits[2])[0]
                edges = along, along + traits[1] / 2
            before, (left, right) = left, edges
            if nameless:
                self._widths.setdefault(traits[0], {})[character] = round((right - left) / traits[1], 2)
            size = max(traits[1], 1.0)
            leftward = is_right_to_left(code)
            falls = leftward and right < start + size / 2
            gap = start - right if falls else left - end
            if (
                # Each word is a piece, since one may be given as it is read and the next as it is seen.
                (leftward and gap > (_SPACE if space else _SURE_WORDS) * size)
                or not characters
                or traits[0] != current[0]
                or traits[2] != current[2]
                or leftward != is_leftward
                or abs(height - base) > _SAME_LINE * size
                # Both letters of a ligature have its edges.
                or (not -0.5 * size < gap < _PIECE_GAP * size and left != before)
            ):
                finish()
                start, end, base, current, rising = left, right, height, traits, 0
                if space and not leftward and not traits[2]:
                    # The box of a slanted letter reaches over the space before it.
                    pdfium.FPDFText_GetCharOrigin(self._text, place, x, y)
                    start = max(left, x.value)
            elif leftward or (code > 0x2E7F and is_ideographic(characters[-1] + character) and gap < _SET_APART * size):
                pass
            elif traits[2] < _ASKEW and gap > _SURE_SPACE * size + max(tracking, 0.0):
                if not is_real:
                    unseen[len(characters)] = gap
                characters.append(" ")
            elif space and left != before:
                pdfium.FPDFText_GetCharOrigin(self._text, place, x, y)
                if traits[2] >= _ASKEW or (left if traits[2] else x.value) - end > _SPACE * size:
                    characters.append(" ")
            # Letters that are set apart have gaps that are no spaces.
            tracking = gap if characters and characters[-1] != " " else 0.0
            rising += leftward and left > start
            if character.isupper():
                self._capitals.append((left + right, height, len(self.pieces), len(characters)))
            characters.append(character)
            is_leftward, space, is_real = leftward, False, False
            start, end = (min(start, left), max(end, right)) if leftward else (start, right)
        finish()
        self.pieces = with_accents_joined(self.pieces, self._capitals, [style["size"] for style in self.styles])
        # In files that have their spaces, letters between which there are none are set apart.
        for number, places in self._apart if 20 * spaces > self.characters else ():
            piece = self.pieces[number]
            self.pieces[number] = ("".join(it for at, it in enumerate(piece[0]) if at not in places), *piece[1:])
        self.has_nameless = bool(self._widths)
        for number, widths in self._widths.items():
            letters = [width for letter, width in widths.items() if letter.isalnum()]
            self.styles[number]["fixed"] = len(letters) > 4 and max(letters) - min(letters) < _EQUAL_WIDTHS

    def _is_in_column(self, place: int, size: float) -> bool:
        """Whether a letter of Chinese or Japanese stands above or below the next one or the one before."""
        text, x, y = ctypes.cast(self._text, ctypes.c_void_p).value, ctypes.c_double(), ctypes.c_double()
        origins = []
        for other in (place, place + 1, max(place - 1, 0)):
            pdfium.FPDFText_GetCharOrigin(self._text, other, x, y)
            if is_ideographic(chr(min(_code(text, other), sys.maxunicode))):
                origins.append((x.value, y.value))
            elif other == place:
                return False
        (left, base), *others = origins
        return any(abs(x - left) < size / 4 and 0.5 < abs(y - base) / size < 2 for x, y in others)

    def _style(self, found: Any, place: int, code: int) -> tuple[int, float, int]:
        matrix = pdfium.FS_MATRIX(1.0, 0.0, 0.0, 1.0)
        pdfium.FPDFText_GetMatrix(self._text, place, matrix)
        a, b, c, d = matrix.a, matrix.b, matrix.c, matrix.d
        size = pdfium.FPDFText_GetFontSize(self._text, place) * (math.hypot(c, d) or 1.0)
        angle = math.degrees(math.atan2(b, a)) if b or a < 0 else 0.0
        direction = round(angle / 90) % 4
        if abs(angle / 90 - round(angle / 90)) > _MOST_SKEW:
            direction = _ASKEW + 2 * round(angle % 360)
        elif direction == 0 and code > 0x2E7F and self._is_in_column(place, size):
            direction = 3
        traits = self._font(pdfium.FPDFTextObj_GetFont(found))
        mode = pdfium.FPDFTextObj_GetTextRenderMode(found)
        red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
        colour = 0
        if pdfium.FPDFText_GetFillColor(self._text, place, red, green, blue, alpha):
            colour = red.value << 16 | green.value << 8 | blue.value
        tag = self._tags.get(pdfium.FPDFPageObj_GetMarkedContentID(found), "")
        artifact = _is_artifact(found)
        size = round(size, 1)
        key = (id(traits), size, mode, colour, tag, artifact)
        if key not in self._numbers:
            self._numbers[key] = len(self.styles)
            style = traits | {"size": size, "colour": colour, "tag": tag, "artifact": artifact}
            style["bold"] = style["bold"] or mode == _STROKED
            self.styles.append(style)
        return self._numbers[key], size, direction

    def _font(self, font: Any) -> dict[str, Any]:
        address = ctypes.cast(font, ctypes.c_void_p).value or 0
        if address not in self._fonts:
            name = read_bytes(pdfium.FPDFFont_GetBaseFontName, font).decode("utf-8", "replace")
            flags = pdfium.FPDFFont_GetFlags(font)
            angle = ctypes.c_int()
            pdfium.FPDFFont_GetItalicAngle(font, angle)
            self._fonts[address] = _font_traits(name, flags, pdfium.FPDFFont_GetWeight(font), angle.value)
            if not self._fonts[address]["font"]:
                self._fonts[address]["font"] = f"{_NAMELESS} {address:x}"
        return self._fonts[address]


def _along_and_across(x: float, y: float, direction: int) -> tuple[float, float]:
    """Where a point lies on a page turned so that its text runs to the right."""
    angle = math.radians(90 * direction if direction < _ASKEW else (direction - _ASKEW) / 2)
    along, across = math.cos(angle), math.sin(angle)
    return x * along + y * across, y * along - x * across


def _edges(box: Any, direction: int) -> tuple[float, float]:
    """Left and right edge of a character on a page turned so that its text runs to the right."""
    match direction:
        case 0:
            return box.left, box.right
        case 1:
            return box.bottom, box.top
        case 2:
            return -box.right, -box.left
        case _:
            return -box.top, -box.bottom
