"""The kinds of files that can be read, by their suffix, and bytes to text and lines."""

from __future__ import annotations

import codecs
import gzip
import itertools
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from ...errors import DocumentError
from ...runtime.memory import free_memory
from ...runtime.text import counted, described

_SUFFIXES = {
    **{"text": ".txt .text", "markdown": ".md .markdown", "rst": ".rst", "html": ".html .htm .xhtml"},
    **{"xml": ".xml .nxml .tei", "pdf": ".pdf", "docx": ".docx .docm", "odt": ".odt", "pptx": ".pptx .pptm"},
    **{"epub": ".epub", "ipynb": ".ipynb", "eml": ".eml", "latex": ".tex", "rtf": ".rtf", "org": ".org"},
    **{"mediawiki": ".mediawiki", "typst": ".typ", "asciidoc": ".adoc .asciidoc"},
    **{"jsonl": ".jsonl .ndjson", "json": ".json", "csv": ".csv", "tsv": ".tsv", "parquet": ".parquet"},
}
_KINDS = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_CORPORA = frozenset({"jsonl", "json", "csv", "tsv", "parquet"})
# As pandoc calls them.
PANDOC_KINDS = frozenset({"latex", "rtf", "org", "mediawiki", "typst", "asciidoc"})
_NEVER_COMPRESSED = frozenset({"pdf", "docx", "odt", "pptx", "epub", "parquet"})
KNOWN_SUFFIXES = " ".join(_KINDS) + " (text formats also with .gz)"

_DECLARED = re.compile(
    rb"""(?:<\?xml[^>]{0,999}?encoding\s*=\s*|<meta[^>]{0,999}?charset\s*=\s*)["']?\s*([A-Za-z0-9._:-]+)""", re.I
)
# Names that Python does not know, and those that browsers take for larger encodings, as most pages mean them.
AS_BROWSERS = {
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin1", "us-ascii", "ascii", "x-cp1252"), "cp1252"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "ms_kanji"), "cp932"),
    **dict.fromkeys(("gb2312", "gb_2312-80", "x-gbk", "gbk", "chinese"), "gb18030"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "windows-949", "korean"), "cp949"),
    **{"iso-8859-8-i": "iso-8859-8", "iso-8859-9": "cp1254", "windows-874": "cp874", "tis-620": "cp874"},
    **{"x-mac-roman": "mac-roman", "x-mac-cyrillic": "mac-cyrillic", "x-cp1251": "cp1251", "big5": "big5hkscs"},
}
# Encodings of pages that declare nothing, by the language of the page: those that were usual.
_BY_LANGUAGE = {
    **dict.fromkeys(["ru", "uk", "be"], "cp1251 koi8-u"),
    **dict.fromkeys(["bg", "mk"], "cp1251"),
    **dict.fromkeys(["de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "nb", "fi"], "cp1252"),
    **{"ja": "cp932 euc_jp", "zh": "gb18030", "ko": "cp949", "th": "cp874"},
    **{"ar": "cp1256", "fa": "cp1256", "he": "cp1255", "el": "cp1253", "tr": "cp1254"},
}
_LANGUAGE = re.compile(rb"""<html\b[^>]*?\slang\s*=\s*["']?([a-z]{2})\b(?!-(?:hant|tw|hk))""", re.IGNORECASE)
# Comments and scripts, in which neither ends a head nor declares, and what ends it.
_HEAD = re.compile(
    _DECLARED.pattern + rb"|<!--(?:-?>|.*?-->|.*)|<(?:script|style)\b(?:[^>]{0,999}/>|.*?</s|.*)|"
    rb"(?P<end></head|<(?:body|article|center|div|h[1-6]|li|main|p|pre|section|table|ul)\b)",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_HEAD = 500_000
_ANYWHERE = 2_048
# What other kinds of files begin with, and by what a part of an archive says which it is.
_BEGINNINGS = {
    **{b"{\\rtf": "RTF", b"%PDF-": "PDF", b"%!PS-": "PostScript", b"\x1f\x8b": "gzip", b"PK\x03\x04": "ZIP"},
    b"\xd0\xcf\x11\xe0": "an older Office file or a message of Outlook",
}
_PARTS = {b"word/": "DOCX", b"opendocument.text": "ODT", b"ppt/": "PPTX", b"application/epub": "EPUB", b"xl/": "XLSX"}
# A letter of UTF-8 read as Windows 1252, or a capital within a word.
_MISREAD = re.compile(r"[ÂÃÄÅ][^\sA-Za-zÀ-ÿ]|(?<=[^\W\d_])[À-ÖØ-ÞŒŠŽŸ](?=[a-zß-ÿœšž])")
# Small Cyrillic letters and kana.
_CERTAIN = re.compile("[а-яё\u3041-\u30fe]")
# Letters of ASCII beside Cyrillic ones.
_MIXED = re.compile("[A-Za-z][\u0400-\u052f]|[\u0400-\u052f][A-Za-z]")
_FEWEST_CERTAIN = 10
_BEGINNING = re.compile(r"\b[А-Ю][а-яё]|[\u3041-\u3096]")
# How many bytes of letters beyond ASCII, or of any, there have to be for each that is wrong.
_RIGHT_BYTES, _BYTES_OF_ONE_WRONG = 10, 10_000
# The most frequent letters of what encodings hold, and of how many letters they are one.
_FREQUENT = dict.fromkeys(("cp1251", "koi8-u", "cp866", "iso8859-5"), ("оеаинтсрвлк", 2))
_FREQUENT |= dict.fromkeys(("cp932", "euc_jp"), ("のにはをたがでとし", 5)) | {"cp949": ("이다는에을의고가하지로한", 5)}
_FREQUENT |= {"gb18030": ("的一是不了在人有我他这来们中", 12), "big5": ("的一是不了在人有我他這來們中", 12)}
_FREQUENT |= {"cp1253": ("αεοιτνσρης", 2), "cp1255": ("איוהלתרמבש", 2)}
_FREQUENT |= {"cp1256": ("اليمنوتبره", 2), "cp874": ("านรกอเงย", 2)}
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_SAMPLE, _FEWEST_NULS = 4096, 4
# Text packs to a tenth or a fiftieth; what packs to less and is large is made to fill the memory.
LARGE, MOST_PACKED = 32 * 2**20, 200
_MOST_EMPTY_LINES = 1_000_000
# A text is in memory as bytes, as characters, and in the sections made of them.
_COPIES, _BLOCK = 3, 2**20
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    *((mark, "utf-32") for mark in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
    *((mark, "utf-16") for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)


def split_suffix(path: Path) -> tuple[str, str]:
    """The name of a file without the suffixes that are known, and its kind, empty if that is unknown."""
    name = path.name
    compressed = name.lower().endswith(".gz")
    inner = Path(name[:-3] if compressed else name)
    # Sphinx keeps the sources of its pages as .rst.txt.
    suffix = Path(inner.stem).suffix if inner.name.lower().endswith((".rst.txt", ".md.txt")) else inner.suffix
    kind = _KINDS.get(suffix.lower(), "")
    if not kind or (compressed and kind in _NEVER_COMPRESSED):
        return path.stem, ""
    return inner.stem, kind


def is_corpus(kind: str) -> bool:
    """Whether a file of this kind holds many documents."""
    return kind in _CORPORA


def reading_error(error: BaseException) -> DocumentError:
    """Say in one line, without the file's name, why a file could not be read."""
    match error:
        case FileNotFoundError():
            return DocumentError("there is no such file; check the path")
        case PermissionError():
            return DocumentError("permission to read it is denied; change its permissions")
        case IsADirectoryError():
            return DocumentError("it is a folder; name a file")
        case gzip.BadGzipFile():
            return DocumentError("it is no gzip file although its name ends in .gz, or is damaged; rename or mend it")
        case EOFError() | zlib.error():
            return DocumentError("its gzip data are cut off or damaged; fetch the file again")
        case OSError():
            return DocumentError(f"it cannot be read: {error.strerror or error}")
        case _:
            return DocumentError(f"it cannot be read: {' '.join(str(error).split())}")


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, uncompressed if its name ends in ``.gz``.

    Raises:
        DocumentError: the file cannot be opened, or cannot be read while it is open.
    """
    if "\0" in str(path):
        raise DocumentError("its path contains a NUL character; check the path")
    try:
        mode = path.stat().st_mode
        # Opening a named pipe waits for a writer, and a device such as /dev/zero has no end.
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DocumentError("it is a pipe, a socket or a device, not a file; send its content to - instead")
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as stream:
            yield cast("IO[bytes]", stream)
    except (OSError, EOFError, zlib.error) as error:
        raise reading_error(error) from error


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, of which none may take more memory than is free, or unpack to far more than text does.

    Raises:
        DocumentError: a line does, or a million empty lines follow one another.
    """
    free = free_memory()
    most = sys.maxsize - 1 if free is None else free // _COPIES
    packed = isinstance(stream, gzip.GzipFile)
    largest = max(LARGE, MOST_PACKED * os.fstat(stream.fileno()).st_size) if packed else most
    empty = 0
    for number in itertools.count(1):
        line = stream.readline(min(most, largest) + 1)
        if not line:
            return
        if len(line) > largest:
            raise DocumentError(f"its line {number:,} unpacks to more than {largest:,} bytes, as no text does")
        empty = empty + 1 if line.isspace() else 0
        if empty > _MOST_EMPTY_LINES:
            raise DocumentError(f"more than {empty - 1:,} empty lines follow line {number - empty:,}; delete them")
        if len(line) > most:
            raise too_large(f"its line {number:,} has more than {most:,} bytes and does not fit into memory")
        yield line


def read_whole(path: Path) -> bytes:
    """Read all bytes of a file, uncompressed if its name ends in ``.gz``.

    Raises:
        DocumentError: the file cannot be read, unpacks to far more than text does, or does not fit into free memory.
    """
    free = free_memory()
    most = sys.maxsize if free is None else free // _COPIES
    with open_bytes(path) as stream:
        if path.name.lower().endswith(".gz"):
            # How long it is shows only while it is read.
            parts, size = [], 0
            largest = max(LARGE, MOST_PACKED * path.stat().st_size)
            while size <= most and (part := stream.read(_BLOCK)):
                parts.append(part)
                size += len(part)
                if size > largest:
                    raise DocumentError(f"it unpacks to more than {largest:,} bytes, as no text does; it is not read")
            content = b"".join(parts) if size <= most else b""
        else:
            size = os.fstat(stream.fileno()).st_size
            content = stream.read() if size <= most else b""
    if size > most:
        raise too_large(f"it has {size / 2**30:,.1f} GB or more, and {(free or 0) / 2**30:,.1f} GB of memory are free")
    return content


def too_large(reason: str = "it does not fit into memory") -> DocumentError:
    """The error for what is too large to be read as one document."""
    return DocumentError(f"{reason}; divide it into smaller documents")


def check_encoding(encoding: str) -> None:
    """Raise a DocumentError if Python does not know the encoding."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError, TypeError):
        raise DocumentError(f"encoding {described(encoding)} is unknown; try utf-8, latin-1 or cp1252") from None


def decoding_error(error: UnicodeError, encoding: str, offset: int = 0) -> DocumentError:
    """Say where bytes, which begin at an offset in their file, are not text in the given encoding."""
    if isinstance(error, UnicodeDecodeError):
        reason, content = f"byte 0x{error.object[error.start]:02x} at offset {offset + error.start:,}", error.object
    else:
        reason, content = " ".join(str(error).split()), b""
    # For an advice, in which encoding most letters are frequent ones; those of Latin stand in words of ASCII.
    shares = {"cp1252": 0.5}
    for name, (frequent, one_of) in _FREQUENT.items():
        beyond = re.findall(r"([A-Za-z]?)([^\x00-\x7f])", content[:_SAMPLE].decode(name, "replace"))
        is_latin = 2 * sum(bool(before) for before, _ in beyond) > len(beyond)
        shares[name] = 0 if is_latin else one_of * sum(letter in frequent for _, letter in beyond) / max(len(beyond), 1)
    likely = max(shares, key=lambda name: shares[name])
    return DocumentError(
        f"it is not {encoding} text ({reason}); give its encoding, for example --encoding {likely}, or "
        f"corpus.encoding={likely} for training"
    )


def decode(content: bytes, encoding: str, kind: str = "text", warnings: list[str] | None = None) -> str:
    """Turn the bytes of a whole file into text.

    A byte order mark decides; then UTF-8; then the given encoding; and only if that fails the one that XML or HTML
    declares. Of UTF-8 a few wrong bytes become U+FFFD, and what declares nothing may be in the encoding usual in the
    language of a page, or the only one that makes Russian or Japanese of it; these are added to the warnings.

    Raises:
        DocumentError: the bytes are not text in that encoding, or are UTF-16 or UTF-32 without a byte order mark.
    """
    refuse_other_kind(content, kind)
    encoding = next((marked for mark, marked in _BYTE_ORDER_MARKS if content.startswith(mark)), encoding)
    if warnings is not None and not encoding.lower().startswith(("utf", "u8")) and not content.isascii():
        # No text of another encoding reads as UTF-8 by chance: in a folder some files are that already.
        with suppress(UnicodeError):
            content.decode("utf-8")
            warnings.append(f"it is UTF-8, and was not read as {encoding}")
            encoding = "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeError as error:
        _refuse_wide_encodings(content[:_SAMPLE].decode("latin-1"), encoding)
        declared = _declared_encoding(content) if kind in ("html", "xml") else None
        if declared is not None:
            label = declared.decode("ascii").lower()
            # What declares UTF-16 and can be read without it is not UTF-16.
            if not label.startswith(("utf-16", "utf-32")) and (found := decode_declared(content, label)) is not None:
                return found
        if warnings is not None and encoding.replace("-", "").lower() == "utf8":
            if (found := nearly_utf_8(content, warnings)) is not None:
                return found
            if declared is None and (usual := _usual_encoding(content) or _certain_encoding(content)):
                warnings.append(f"it declares no encoding; read as {usual}, as its language or its letters say")
                return content.decode(usual)
        raise decoding_error(error, encoding) from None
    _refuse_wide_encodings(text, encoding)
    # The escapes of ISO 2022, all of it ASCII.
    name = "iso2022_kr" if "\x1b$)C" in text else "iso2022_jp_2"
    return (decode_declared(content, name) or text) if "\x1b$" in text else text


def refuse_other_kind(content: bytes, kind: str) -> None:
    """Raise a DocumentError that says what a file is, if its first bytes are those of another kind."""
    found = next((other for mark, other in _BEGINNINGS.items() if content.startswith(mark)), kind)
    if found == "ZIP":
        found = next((other for part, other in _PARTS.items() if part in content), found)
    if found.lower() != kind:
        raise DocumentError(f"it is {found} by its first bytes, and no {kind}; rename or convert it")


def _declared_encoding(content: bytes) -> bytes | None:
    """The encoding that a page or XML says it has, wherever in its head."""
    for found in _HEAD.finditer(content, 0, _LONGEST_HEAD):
        if found["end"] and found.start() > _ANYWHERE:
            break
        if found[1]:
            return found[1]
    return None


def nearly_utf_8(content: bytes, warnings: list[str]) -> str | None:
    """Decode UTF-8 of which a few bytes are wrong, which the warnings say; None where most are."""
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd") - content.count("\ufffd".encode())
    beyond = len(content) - len(content.translate(None, _BEYOND_ASCII))
    # Of other encodings every letter with an accent would be wrong, and none right.
    if wrong > max(beyond // _RIGHT_BYTES, len(content) // _BYTES_OF_ONE_WRONG):
        return None
    warnings += [f"{counted(wrong, 'wrong byte')} of its UTF-8 read as U+FFFD"] if wrong else []
    return text


def decode_declared(content: bytes, label: str) -> str | None:
    """Decode bytes by an encoding as pages and mails call it; None where they are not text of that encoding."""
    for name in (AS_BROWSERS.get(label.lower(), label), label):
        with suppress(UnicodeError, LookupError):
            return content.decode(name)
    return None


def _usual_encoding(content: bytes) -> str:
    """The encoding of old pages in the language that a page names; empty where its text cannot be that."""
    language = _LANGUAGE.search(content, 0, 2_048)
    usual = _BY_LANGUAGE.get(language[1].decode("ascii").lower(), "") if language else ""
    shares = [(_share_of_wrong(text), name) for name in usual.split() if (text := decode_declared(content, name))]
    return min([(0.5, ""), *shares])[1]


def _certain_encoding(content: bytes) -> str:
    """The encoding of a text whose letters can only be Russian or Japanese in it; empty where they may be others."""
    for name in ("koi8-u", "cp1251", "euc_jp", "cp932"):
        text = decode_declared(content, name) or ""
        most = sum(character > "\x7f" for character in text) / 3
        # Words of other languages mix letters of ASCII with those beyond it, and Greek capitals are small letters here.
        is_likely = _FEWEST_CERTAIN < most < len(_CERTAIN.findall(text)) and _BEGINNING.search(text) is not None
        if is_likely and len(_MIXED.findall(text)) < most / 10 and _share_of_wrong(text) < 0.5:
            return name
    return ""


def _share_of_wrong(text: str) -> float:
    """How much of what is beyond ASCII another encoding would have made; below a half where the encoding is right."""
    beyond = [character for character in text if ord(character) > 0x7F]
    if 4 * sum("\u0400" <= character < "\u0530" for character in beyond) > len(beyond):
        # Of any text in Russian half are these, and of letters of another Cyrillic encoding few.
        return sum(character.lower() not in "оеаинтсрвлі" for character in beyond) / len(beyond)
    wrong = sum(not character.isprintable() or "\uff61" <= character <= "\uff9f" for character in beyond)
    return 1.5 * (wrong + 2 * len(_MISREAD.findall(text))) / max(len(beyond), 1)


def _refuse_wide_encodings(text: str, encoding: str) -> None:
    """Refuse text with NULs at every second place, or at two or three of four, as UTF-16 and UTF-32 have them."""
    sample = text[:_SAMPLE]
    nuls = [sample[first::4].count("\0") for first in range(4)]
    if sum(nuls) >= max(_FEWEST_NULS, len(sample) // 4) and 0 in (nuls[0], nuls[3]):
        right = f"utf-{32 if nuls[1] and nuls[2] else 16}-{'be' if nuls[0] else 'le'}"
        raise DocumentError(
            f"it is not {encoding} text but {right[:6].upper()} without a byte order mark; give --encoding {right}, "
            f"or corpus.encoding={right} for training"
        )


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Read the lines of a UTF-8 file that are not blank, each with its number from 1 and without its end.

    Raises:
        DocumentError: the file cannot be read, or a line is no UTF-8.
    """
    try:
        with open_bytes(Path(path)) as stream:
            for number, line in enumerate(lines_of(stream), start=1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DocumentError(f"line {number} is no utf-8 text; save it as UTF-8") from error
                if text.strip():
                    yield number, text.removesuffix("\n").removesuffix("\r")
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error.__cause__
