"""Questions to PDFium about single objects of a page: strings, marks, the structure of tagged files, pictures."""

from __future__ import annotations

import ctypes
from typing import Any

import pypdfium2.raw as pdfium

_DEEPEST_TAG = 200
_MOST_MARKS = 16
_TELLING_TAGS = frozenset({"Title", "H", "H1", "H2", "H3", "H4", "H5", "H6", "TD", "TH", "LI", "Code", "TOCI", "Note"})


def is_artifact(found: Any) -> bool:
    """Whether an object is marked as none of the text, as running heads are in tagged files."""
    for number in range(min(pdfium.FPDFPageObj_CountMarks(found), _MOST_MARKS)):
        mark = pdfium.FPDFPageObj_GetMark(found, number)
        if mark and read_text(pdfium.FPDFPageObjMark_GetName, mark, sized=True) == "Artifact":
            return True
    return False


def structure_tags(page: Any) -> dict[int, str]:
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


def largest_picture(page: Any, area: float) -> float:
    """The share of a page that its largest picture covers."""
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
    if sized:
        length = ctypes.c_ulong()
        call(*arguments, None, 0, length)
        size = length.value
        wide = (ctypes.c_ushort * max(size // 2, 1))()
        call(*arguments, wide, size, length)
        return bytes(wide)[:size].decode("utf-16-le", "replace").rstrip("\0")
    size = call(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(max(size, 2))
    call(*arguments, buffer, size)
    return buffer.raw[:size].decode("utf-16-le", "replace").rstrip("\0")
