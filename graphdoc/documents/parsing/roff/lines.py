"""The lines of a roff source that are shown: definitions carried out, macros put in place, conditions decided."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator
from typing import Any

from ....errors import DocumentError
from .conditions import condition, number
from .escapes import arguments, plain, uncommented
from .frames import Frame, braces, is_endless, without_braces
from .predefined import NUMBERS, STRINGS

# Macros may call themselves: what they write in place is at most this much, and a few times the source.
_LEAST_EXPANDED, _MOST_EXPANDED, _PER_LINE = 500_000, 5, 20
_MOST_CONDITIONS, _MOST_UNCLOSED, _DEEPEST = 100, 3, 5
_LONGEST_MACRO = 3
# So much of a text is replaced at once: what grows is refused before it fills the memory.
_PART = 1000
_REQUEST = re.compile(r"[.'][ \t]*([^\s\\]*)[ \t]*")
_VALUE = re.compile(
    r"\\(?:(\\)|(?:([*$])|n([+-]?))(?:\((..)|\[([^\]]{0,200})\]|(.)))|\\w([^\s\w\\])(.{0,200}?)\7", re.DOTALL
)


class Lines:
    """The lines of a source, as pairs of the name of a macro, empty for a line of text, and what stands behind it.

    Args:
        text: the source.
        builtin: macros that stay as they are where the source defines them again.
        known: all macros and requests that are written by what goes through the lines.

    Raises:
        DocumentError: while it is gone through: its macros grow without end, or many blocks have no end.
    """

    def __init__(self, text: str, builtin: frozenset[str], known: frozenset[str]) -> None:
        self.dropped: Counter[str] = Counter()
        self.warnings: list[str] = []
        self._builtin, self._known = builtin, known
        self._frames = [Frame(text.split("\n"))]
        self._left = _LEAST_EXPANDED + _MOST_EXPANDED * len(text)
        self._strings = dict(STRINGS)
        self._macros: dict[str, list[str]] = {}
        self._aliases: dict[str, str] = {}
        # What conditions ask for.
        self._names: ChainMap[str, Any] = ChainMap()
        self._names.maps = [self._macros, self._strings]
        self._numbers = dict(NUMBERS)
        self._branches: list[bool] = []
        self._replaced: dict[int, str] = {}
        self._unclosed = 0
        self._is_verbatim = False
        # Each does its work and gives the line that is to be read in its place, if any.
        self._requests: dict[str, Callable[[str], str | None]] = {
            **dict.fromkeys(("de", "de1", "dei", "dei1"), self._define),
            **dict.fromkeys(("am", "am1", "ami", "ami1"), lambda rest: self._define(rest, append=True)),
            **dict.fromkeys(("ds", "ds1"), self._define_string),
            **dict.fromkeys(("as", "as1"), lambda rest: self._define_string(rest, append=True)),
            **{"ig": self._ignore, "nr": self._set_number, "rm": self._remove, "rn": self._rename},
            **{"als": self._alias, "if": self._if, "ie": self._if_else, "el": self._else, "while": self._while},
            **{"nop": self._same, "do": self._as_request, "tr": self._replace, "return": self._return},
            **{
                "break": self._break,
                "continue": self._continue,
                "shift": self._shift,
                "eo": self._no_escapes,
                "ec": self._escapes,
            },
        }

    def __iter__(self) -> Iterator[tuple[str, str]]:
        while (raw := self._next()) is not None:
            shown = self._read(raw)
            if shown is not None:
                yield shown

    def shown(self, text: str) -> str:
        """The text of what stands on a line."""
        text = plain(text)
        if not self._replaced:
            return text
        parts: list[str] = []
        for start in range(0, len(text), _PART):
            part = text[start : start + _PART]
            parts.append(part.translate(self._replaced))
            self.spend(max(len(parts[-1]) - len(part), 0))
        return "".join(parts)

    def _next(self) -> str | None:
        while self._frames:
            frame = self._frames[-1]
            if frame.at < len(frame.lines):
                if len(self._frames) > 1:
                    self.spend(_PER_LINE + len(frame.lines[frame.at]))
                return self._joined(frame)
            if frame.loop:
                self._begin_round(frame)
                continue
            if len(self._frames) == 1:
                return None
            self._frames.pop()
        return None

    def _joined(self, frame: Frame) -> str:
        """The next line, with those that it goes on in behind a backslash at its end."""
        parts: list[str] = []
        while frame.at < len(frame.lines):
            line = frame.lines[frame.at]
            frame.at += 1
            if (len(line) - len(line.rstrip("\\"))) % 2 == 0 or self._is_verbatim:
                parts.append(line)
                break
            parts.append(line[:-1])
        return "".join(parts)

    def spend(self, characters: int) -> None:
        """Count what is written in place of something shorter.

        Raises:
            DocumentError: it is far more than the source.
        """
        self._left -= characters
        if self._left < 0:
            raise DocumentError("its macros or strings grow without end; leave out those that use themselves")

    def _read(self, raw: str) -> tuple[str, str] | None:
        line: str | None = raw
        for _ in range(_MOST_CONDITIONS):
            if line is None:
                return None
            found = _REQUEST.match(line)
            # A loop asks for values anew in each round; behind another condition they are there already.
            if line is raw and found and found[1] == "while" and not self._is_verbatim:
                self._loop(line[found.end() :])
                return None
            if not self._is_verbatim:
                line = self._with_values(line)
                found = _REQUEST.match(line)
            if found is None and self._is_verbatim:
                return "", line.replace("\\", "\\e")
            if found is None:
                return "", without_braces(uncommented(line))
            name, rest = found[1], line[found.end() :]
            if not name:
                self.dropped["comment"] += rest.startswith(('\\"', "\\#"))
                # A point alone ends the layout of a table.
                return (".", "") if not rest else None
            rest = rest if name in ("ds", "as", "ds1", "as1") else without_braces(uncommented(rest), name)
            name = self._aliases.get(name, name)
            if name in self._macros and name not in self._builtin:
                self._call(name, rest)
                return None
            request = self._requests.get(name)
            if request is None:
                return self._shown_or_undefined(name, rest, line)
            line = request(rest)
        raise DocumentError("a line of it has very many conditions; divide it")

    def _shown_or_undefined(self, name: str, rest: str, line: str) -> tuple[str, str] | None:
        """A macro; one that nothing defines leaves its words, and a line that is none, such as ``'tis``, stays."""
        if name in self._known:
            return name, rest
        self.dropped["undefined macro"] += 1
        if line[0] == "'" or len(name) > _LONGEST_MACRO:
            return "", line
        return ("", " ".join(arguments(rest))) if rest else None

    def _call(self, name: str, rest: str) -> None:
        frame = self._frames[-1]
        if frame.at >= len(frame.lines) and len(self._frames) > 1 and not frame.loop:
            self._frames.pop()
        self._frames.append(Frame(self._macros[name], name, arguments(rest)))

    def _with_values(self, line: str, depth: int = 0) -> str:
        """A line with the values of strings, numbers and arguments in it."""
        if "\\" not in line:
            return line
        return _VALUE.sub(lambda found: self._value(found, depth), line)

    def _value(self, found: re.Match[str], depth: int) -> str:
        if found[1]:
            return found[0]
        if found[7]:
            # A width; a character of a terminal is 24 units wide.
            return str(24 * len(plain(found[8])))
        name = found[4] or found[5] or found[6] or ""
        if found[2] == "$":
            value = self._argument(name)
            # Before it is put in place: a line may ask for it a thousand times.
            self.spend(len(value))
            return value
        if not found[2]:
            if found[3]:
                self._numbers[name] = self._numbers.get(name, 0) + (1 if found[3] == "+" else -1)
            if name == ".$":
                return str(len(self._frames[-1].arguments))
            return f"{self._numbers.get(name, 0):.0f}"
        value = self._strings.get(name if name in self._strings else name.split(" ")[0], "")
        self.spend(1 + len(value))
        return self._with_values(value, depth + 1) if depth < _DEEPEST else value

    def _argument(self, name: str) -> str:
        frame = self._frames[-1]
        if name in ("*", "@", "^"):
            return " ".join(f'"{one}"' if name == "@" else one for one in frame.arguments)
        if name == "0":
            return frame.name
        place = int(name) if name.isascii() and name.isdigit() and len(name) < 4 else 0
        return frame.arguments[place - 1] if 0 < place <= len(frame.arguments) else ""

    # Definitions.

    def _until(self, end: str, what: str) -> list[str] | None:
        """The lines up to the request that ends a block; None where there is none, and what follows stays."""
        frame = self._frames[-1]
        names = (f".{end}", f"'{end}")
        for at in range(frame.at, len(frame.lines)):
            line = frame.lines[at]
            if line[:1] in (".", "'") and line[0] + line[1:].lstrip(" \t").rstrip() in names:
                block = frame.lines[frame.at : at]
                frame.at = at + 1
                if len(self._frames) > 1:
                    self.spend(_PER_LINE * len(block))
                return block
        self._warn_unclosed(what)
        return None

    def _warn_unclosed(self, what: str) -> None:
        self._unclosed += 1
        if self._unclosed > _MOST_UNCLOSED:
            raise DocumentError(f"many of its blocks, such as {what}, have no end; close them")
        self.warnings.append(f"{what} of line {self._frames[0].at:,} has no end; what follows it is read as text")

    def _define(self, rest: str, *, append: bool = False) -> str | None:
        name, end = (*rest.split()[:2], "", "")[:2]
        body = self._until(end or ".", ".de")
        if body is None or not name:
            return None
        if not self._is_verbatim:
            body = [line.replace("\\\\", "\\") for line in body]
        self._macros[name] = [*self._macros.get(name, ()), *body] if append else body
        self._aliases.pop(name, None)
        if append:
            self.spend(len(self._macros[name]))
        return None

    def _ignore(self, rest: str) -> None:
        block = self._until(rest.split()[0] if rest.split() else ".", ".ig")
        self.dropped["ig"] += block is not None

    def _define_string(self, rest: str, *, append: bool = False) -> str | None:
        name, _, value = uncommented(rest).partition(" ")
        value = value.lstrip(" \t").removeprefix('"').replace("\\\\", "\\")
        if braces(value) < 0:
            value = without_braces(value)
        self._strings[name] = self._strings.get(name, "") + value if append else value
        if append:
            self.spend(len(self._strings[name]))
        return None

    def _set_number(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        value = value.strip()
        before = self._numbers.get(name, 0.0) if value[:1] in ("+", "-") else 0.0
        self._numbers[name] = before + number(value.split(" ")[0])

    def _remove(self, rest: str) -> None:
        for name in rest.split():
            self._macros.pop(name, None)
            self._strings.pop(name, None)

    def _rename(self, rest: str) -> None:
        old, new = (*rest.split()[:2], "", "")[:2]
        if old in self._macros:
            self._macros[new] = self._macros.pop(old)
        elif old in self._strings:
            self._strings[new] = self._strings.pop(old)
        elif old and new:
            self._aliases[new] = old

    def _alias(self, rest: str) -> None:
        new, old = (*rest.split()[:2], "", "")[:2]
        if old in self._macros:
            self._macros[new] = self._macros[old]
        elif old and new != old:
            self._aliases[new] = self._aliases.get(old, old)

    def _replace(self, rest: str) -> None:
        signs = [plain(one) for one in re.findall(r"\\(?:\(..|\[[^\]]{0,200}\]|.)|.", rest)]
        for old, new in zip(signs[::2], [*signs[1::2], " "], strict=False):
            if len(old) == 1:
                self._replaced[ord(old)] = new

    # Conditions.

    def _if(self, rest: str) -> str | None:
        holds, behind = condition(rest, self._names, self._numbers)
        return self._branch(behind, holds=holds)

    def _if_else(self, rest: str) -> str | None:
        holds, behind = condition(rest, self._names, self._numbers)
        self._branches.append(holds)
        return self._branch(behind, holds=holds)

    def _else(self, rest: str) -> str | None:
        return self._branch(rest, holds=bool(self._branches) and not self._branches.pop())

    def _while(self, rest: str) -> None:
        """Leave out a loop whose condition has its values already."""
        self.dropped["while"] += 1
        self._skip(rest)

    def _loop(self, rest: str) -> None:
        """Read the lines of a loop as long as its condition holds; what it writes is spent, as of macros."""
        frame = self._frames[-1]
        start, depth = frame.at, braces(rest)
        body: list[str] = []
        while depth > 0 and frame.at < len(frame.lines):
            body.append(self._joined(frame))
            depth += braces(body[-1])
            if len(self._frames) > 1:
                self.spend(_PER_LINE + len(body[-1]))
        if depth > 0 or is_endless(rest, body):
            frame.at = start
            self._while(rest)
            return
        self._frames.append(Frame(["", *body], frame.name, frame.arguments, 1 + len(body), uncommented(rest)))

    def _begin_round(self, frame: Frame) -> None:
        """Go back to the start of a loop, or leave it."""
        self.spend(_PER_LINE + len(frame.loop))
        holds, behind = condition(self._with_values(frame.loop), self._names, self._numbers)
        if not holds:
            self._frames.pop()
            return
        frame.lines[0] = behind.removeprefix("\\{").lstrip(" \t")
        frame.at = 0 if frame.lines[0] else 1

    def _break(self, rest: str) -> None:
        if self._frames[-1].loop:
            self._frames.pop()

    def _continue(self, rest: str) -> None:
        if self._frames[-1].loop:
            self._frames[-1].at = len(self._frames[-1].lines)

    def _branch(self, rest: str, *, holds: bool) -> str | None:
        if not holds:
            self._skip(rest)
            return None
        return rest.removeprefix("\\{").lstrip(" \t") or None

    def _skip(self, rest: str) -> None:
        """Leave out a branch: the rest of the line, and all lines to the end of a block that opens there."""
        depth, has_text = braces(rest), bool(rest) and rest[0] not in ".'\\"
        frame = self._frames[-1]
        start = frame.at
        while depth > 0:
            if frame.at >= len(frame.lines):
                frame.at = start
                self._warn_unclosed(".if")
                return
            line = self._joined(frame)
            depth += braces(line)
            has_text |= bool(line.strip()) and line[0] not in ".'"
            if len(self._frames) > 1:
                self.spend(_PER_LINE + len(line))
        self.dropped["if"] += has_text

    def _same(self, rest: str) -> str | None:
        return rest or None

    def _as_request(self, rest: str) -> str:
        return f".{rest}"

    def _return(self, rest: str) -> None:
        while self._frames[-1].loop:
            self._frames.pop()
        if len(self._frames) > 1:
            self._frames.pop()

    def _shift(self, rest: str) -> None:
        del self._frames[-1].arguments[: int(number(rest)) if rest else 1]

    def _no_escapes(self, rest: str) -> None:
        self._is_verbatim = True

    def _escapes(self, rest: str) -> None:
        self._is_verbatim = False
