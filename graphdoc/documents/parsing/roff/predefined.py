"""Strings and numbers that are there before a roff source defines any."""

from __future__ import annotations

# Strings that the macro packages define.
STRINGS = {
    **{"lq": "\\[lq]", "rq": "\\[rq]", "R": "\\[rg]", "Tm": "\\[tm]", "S": "", "Lq": "\\[lq]", "Rq": "\\[rq]"},
    **{
        "Ba": "|",
        "Ne": "\\[!=]",
        "Ge": "\\[>=]",
        "Le": "\\[<=]",
        "Gt": ">",
        "Lt": "<",
        "Pm": "\\[+-]",
        "q": '"',
        "lp": "(",
        "rp": ")",
    },
    **{"If": "\\[if]", "Na": "NaN", "Am": "&", "Pi": "\\[*p]", "Aq": "'", "-": "\\-", "ga": "`", "aa": "'"},
}
# Those of a formatter for terminals.
NUMBERS = {".g": 1.0, ".H": 24.0, ".V": 40.0, ".l": 1872.0, ".x": 1.0, ".y": 22.0, ".u": 1.0}
