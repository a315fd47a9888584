"""What the name and flags of a font say of its look."""

from __future__ import annotations

import re
from typing import Any

_FIXED, _ITALIC, _SMALL_CAPITALS, _FORCED_BOLD = 1, 1 << 6, 1 << 17, 1 << 18
_BOLD_WEIGHT = 600
# NimbusRomNo9L-Medi is the bold of Times; CMBX and SFBX are Computer Modern's.
_BOLD = re.compile(r"bold|black|heavy|(?<![a-z])demi|-medi(?![a-z])|\bbd\b|^(?:CMB|SFB|ECB|LMB)", re.IGNORECASE)
_ITALICS = re.compile(r"ital|obli|slant|^(?:CM(?:TI|SL|BXTI)|SF(?:TI|SL|BI)|EC(?:TI|SL|BI))|ReguItal", re.IGNORECASE)
_FIXED_WIDTH = re.compile(r"courier|mono|consol|menlo|typewriter|^(?:CM|SF|EC)(?:TT|SLTT|ITT|VTT)", re.IGNORECASE)
_CAPITALS = re.compile(r"smallcap|-sc\b|^(?:CM|SF|EC)(?:C?CSC|XC)|Caps\d*", re.IGNORECASE)
_REGULAR = re.compile(r"regu|book|light|roman|medium|normal|thin", re.IGNORECASE)
_SUBSET = re.compile(r"^[A-Z]{6}\+")


def font_traits(name: str, flags: int, weight: int, angle: int) -> dict[str, Any]:
    """The look of a font.

    Args:
        name: its name in the file.
        flags: of its descriptor (ISO 32000, table 121).
        weight: 400 is regular, 700 is bold.
        angle: of its italics in degrees.

    Returns:
        ``font`` (its name without the mark of a subset), ``bold``, ``italic``, ``fixed`` and ``capitals`` (small).
    """
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
