"""Whether a PDF file is whole: the library reads what it can of a damaged one and says nothing."""

from __future__ import annotations

import re
import zlib

_STREAM = re.compile(rb"stream\r?\n")
_CATALOGUE = re.compile(rb"(?<!\d)(\d{1,9})\s+\d+\s+obj\s*<<[^>]{0,2000}?/Type\s*/Catalog")
_LENGTH = re.compile(rb"/Length\s+(\d+)(?!\d|\s+\d+\s+R)")
_FLATE_ONLY = re.compile(rb"/Filter\s*(?:\[\s*)?/FlateDecode\s*(?:\]|/|>|\s)")
# Pictures and fonts hold no text.
_NO_TEXT = (b"/Image", b"/Length1", b"/Type1C", b"/CIDFontType0C", b"/OpenType", b"/FunctionType", b"/N 3", b"/N 4")
_LONGEST_HEAD, _LONGEST_END, _CHUNK = 1000, 2048, 2**20


def damage(content: bytes) -> list[str]:
    """What of a PDF file is damaged, in a line for each kind.

    Args:
        content: its bytes.
    """
    found = []
    if b"%%EOF" not in content[-_LONGEST_END:]:
        found.append("the end of the file is missing; pages or text may be missing")
    # What is encrypted unpacks only after it is decrypted.
    damaged = 0 if b"/Encrypt" in content else sum(_is_damaged(content, match.end()) for match in _streams(content))
    if damaged:
        found.append(f"{damaged} compressed {'part is' if damaged == 1 else 'parts are'} damaged; text may be missing")
    return found


def with_new_end(content: bytes) -> bytes | None:
    """A file whose end was cut off, with one by which the library finds what is left; None where that is nothing."""
    catalogues = list(_CATALOGUE.finditer(content))
    if not catalogues or b"/Encrypt" in content:
        return None
    return content + b"\ntrailer\n<< /Root " + catalogues[-1][1] + b" 0 R >>\nstartxref\n0\n%%EOF\n"


def _streams(content: bytes) -> list[re.Match[bytes]]:
    return [match for match in _STREAM.finditer(content) if content[match.start() - 3 : match.start()] != b"end"]


def _is_damaged(content: bytes, start: int) -> bool:
    head = content[max(start - _LONGEST_HEAD, 0) : start]
    head = head[head.rfind(b" obj") + 1 :]
    length = _LENGTH.search(head)
    if length is None or not _FLATE_ONLY.search(head) or any(name in head for name in _NO_TEXT):
        return False
    end = start + int(length[1])
    unpacked = zlib.decompressobj()
    try:
        for at in range(start, min(end, len(content)), _CHUNK):
            part: bytes = content[at : min(at + _CHUNK, end)]
            while part and not unpacked.eof:
                unpacked.decompress(part, _CHUNK)
                part = unpacked.unconsumed_tail
    except zlib.error:
        return True
    return not unpacked.eof
