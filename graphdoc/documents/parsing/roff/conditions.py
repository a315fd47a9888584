r"""Numbers and conditions of roff, as ``.nr`` and ``.if`` have them, for a page that is shown on a terminal."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Container

_LONGEST = 500
_TOKEN = re.compile(r"(\d+\.?\d*|\.\d+)[a-zA-Z]?|([()])|([<>=]=?|[-+*/%&:])|(.)", re.DOTALL)
# A letter says what is shown: n a terminal, t a printed page, o an odd page, e an even one, v an old formatter.
_SHOWN = {"n": True, "t": False, "o": True, "e": False, "v": False}


def _divided(left: float, right: float) -> float:
    return left / right if right else 0.0


def _rest(left: float, right: float) -> float:
    return left % right if right else 0.0


_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": _rest,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "==": operator.eq,
    "&": lambda left, right: float(left > 0 and right > 0),
    ":": lambda left, right: float(left > 0 or right > 0),
}


def number(text: str) -> float:
    """The value of an expression, from left to right without precedence as roff has it; 0 where it is none.

    >>> number("1+2*3"), number("(2>1)&(1:0)"), number("4n"), number("x")
    (9.0, 1.0, 4.0, 0.0)
    """
    if len(text) > _LONGEST:
        return 0.0
    # For every open parenthesis the value before it and the operator that waits for its right side.
    waiting: list[tuple[float, str]] = []
    value, pending, sign = 0.0, "+", 1.0
    expects_value = True
    for digits, bracket, sign_of, other in _TOKEN.findall(text):
        if other:
            break
        if bracket == "(":
            waiting.append((value, pending))
            value, pending, expects_value = 0.0, "+" if sign > 0 else "-", True
            sign = 1.0
        elif bracket == ")":
            if not waiting:
                break
            inner = value
            value, pending = waiting.pop()
            value, expects_value = float(_OPERATORS[pending](value, inner)), False
        elif digits:
            value, expects_value = float(_OPERATORS[pending](value, sign * float(digits))), False
            sign = 1.0
        elif expects_value:
            sign = -sign if sign_of == "-" else sign
        else:
            pending, expects_value = sign_of, True
    while waiting:
        inner = value
        value, pending = waiting.pop()
        value = float(_OPERATORS[pending](value, inner))
    return value if abs(value) < 1e15 else 0.0


def condition(text: str, names: Container[str], registers: Container[str]) -> tuple[bool, str]:
    """Whether a condition holds, and what stands behind it on the line.

    Args:
        text: the line from the condition on.
        names: strings and macros that are defined.
        registers: numbers that are defined.
    """
    bare = text.lstrip(" \t!")
    negated = text.count("!", 0, len(text) - len(bare)) % 2 == 1
    holds, rest = _condition(bare, names, registers)
    return holds is not negated, rest.lstrip(" \t")


def _condition(text: str, names: Container[str], registers: Container[str]) -> tuple[bool, str]:
    first = text[:1]
    if first in _SHOWN and not text[1:2].isalnum():
        return _SHOWN[first], text[1:]
    if first in ("d", "r", "c", "m", "F", "S") and first:
        name, _, rest = text[1:].lstrip(" \t").partition(" ")
        # A brace may stand right behind the name.
        name, brace, block = name.partition("\\{")
        rest = brace + block + (" " + rest if brace else rest)
        return name in {"d": names, "r": registers}.get(first, ()) or first == "c", rest
    if first and not first.isalnum() and first not in "(\\-+.":
        left, _, rest = text[1:].partition(first)
        right, _, rest = rest.partition(first)
        return left == right, rest
    end = _end_of_expression(text)
    return number(text[:end]) > 0, text[end:]


def _end_of_expression(text: str) -> int:
    depth = 0
    for position, letter in enumerate(text[:_LONGEST]):
        depth += (letter == "(") - (letter == ")")
        if (letter in " \t" and depth <= 0) or letter == "\\":
            return position
    return min(len(text), _LONGEST)
