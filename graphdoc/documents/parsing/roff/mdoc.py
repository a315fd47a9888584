"""The macros of mdoc(7), which name what words are and may stand inside of one another, as text of a page."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from ..elements import names
from ..outline import Break
from .escapes import quoted_arguments
from .lines import Lines
from .macros import Macros
from .mdoc_names import ENCLOSED, STANDARDS, SYSTEMS, library, listed, standard_sentence, system
from .page import Page

_OPENED = {"Oo": "Op", "Do": "Dq", "So": "Sq", "Po": "Pq", "Bo": "Bq", "Ao": "Aq", "Qo": "Qq", "Bro": "Brq", "Xo": ""}
_CLOSED = {"Oc": "Op", "Dc": "Dq", "Sc": "Sq", "Pc": "Pq", "Bc": "Bq", "Ac": "Aq", "Qc": "Qq", "Brc": "Brq", "Xc": ""}
_OPENING, _CLOSING = frozenset("(["), frozenset(".,:;)]?!")
_WITHOUT_TEXT = names("Bf Ef Bk Ek Tg Db Hf Lp1")
_WORDS = names("Ad An Ar Cd Cm Dv Em Er Ev Fl Fr Ic Li Ms No Ns Pa Sx Sy Tn Va Vt Mt Ft Fa Cd Dx")
_REFERENCE = "%A %B %C %D %I %J %N %O %P %Q %R %T %U %V"
_CALLED = _WORDS | names(
    "Ap Aq At Bq Brq Bsx Bx Dq Eo Ec Es En Fc Fn Fo Fx In Lb Lk Nm Nx Op Ox Pf Pq Ql Qq Rv Sm Sq St Ta Ux Xr Ex Bt Ud"
    f" {' '.join(_OPENED)} {' '.join(_CLOSED)} {_REFERENCE}"
)
_BLOCKS = names("Bd Bl Bf Bk D1 Dd Dl Dt Ed Ef Ek El Fd It Lp Nd Os Pp Re Rs Tg Db")
MDOC = _CALLED | _BLOCKS | _WITHOUT_TEXT | names("Sh Ss")
# Where a macro stands without words.
_DEFAULTS = {"Ar": "file ...", "Pa": "~", "Mt": "~"}
_OWN_LINE = names("Cd Fd In Ft Vt Nm")


class Mdoc(Macros):
    """Writes what the macros of mdoc(7) show."""

    def __init__(self, page: Page, lines: Lines) -> None:
        super().__init__(page, lines)
        self.date = self.system = ""
        self._name = ""
        self.section = ""
        # Open lists: their kind, whether they are dense, and the number of the item.
        self._lists: list[tuple[str, bool, int]] = []
        self._displays: list[bool] = []
        # Openings of tags that go on over several lines.
        self._tag_parts = 0
        self._is_tag = False
        self._in_function = False
        self._is_first_argument = False
        self._is_first_part = True
        self._authors: list[str] = []
        self._is_spaced = True
        # What the enclosures of a line end with; how many of them have a macro of their own for it.
        self._closers: list[str] = []
        self._explicit = 0
        self._blocks: dict[str, Callable[[str], None]] = {
            **{"Dd": self._date, "Dt": self._begin, "Os": self._os, "Pp": self._paragraph, "Lp": self._paragraph},
            **{"Bl": self._list, "El": self._end_list, "It": self._item, "Bd": self._display, "Ed": self._end_display},
            **{
                "D1": self._one_line,
                "Dl": self._one_line,
                "Nd": self._described,
                "Rs": self._works,
                "Re": self._end_works,
            },
            **{"Fd": self._directive},
        }

    def write(self, name: str, rest: str) -> bool:
        """Write a macro; False if it is none of mdoc(7)."""
        if name in _WITHOUT_TEXT:
            return True
        block = self._blocks.get(name)
        if block is not None:
            block(rest)
        elif name in _CALLED:
            self._line([(name, False), *quoted_arguments(rest)])
        else:
            return False
        return True

    def _line(self, words: list[tuple[str, bool]]) -> None:
        """Write macros and words of one line; punctuation at its end stands behind all that the line opens."""
        end = len(words)
        while end > 1 and not words[end - 1][1] and words[end - 1][0] in _CLOSING:
            end -= 1
        self._page.start_line()
        self._words(words[:end])
        while self._closers:
            self._close()
        for sign, _ in words[end:]:
            self._word(sign)
        if self._is_tag and not self._tag_parts:
            self._end_tag()

    def _words(self, words: list[tuple[str, bool]]) -> None:
        at = 0
        while at < len(words):
            word, is_quoted = words[at]
            at += 1
            if is_quoted or word not in _CALLED:
                self._word(word)
                continue
            start = at
            while at < len(words) and (words[at][1] or words[at][0] not in _CALLED):
                at += 1
            self._macro(word, [one for one, _ in words[start:at]], is_last=at >= len(words))

    def _word(self, raw: str, before: str = "") -> None:
        """Write a word; punctuation follows at once, and a word follows an opening bracket at once."""
        if raw in _CLOSING:
            self._page.is_joint = True
            self._page.put(raw)
        elif raw in _OPENING or raw == "|":
            self._page.put(raw)
            self._page.is_joint = raw in _OPENING
        else:
            self._page.put(before + self._lines.shown(raw))
        if not self._is_spaced:
            self._page.is_joint = True

    def _macro(self, name: str, words: list[str], *, is_last: bool) -> None:
        if name in _OWN_LINE and self.section == "SYNOPSIS" and not self._lists:
            self._page.gap(Break.PARAGRAPH if name == "Ft" else Break.LINE)
        if name in ENCLOSED:
            self._open(ENCLOSED[name])
        elif name in _OPENED:
            self._tag_parts += name == "Xo"
            self._open(ENCLOSED.get(_OPENED[name], ("", "")), is_explicit=True)
        elif name in _CLOSED:
            self._tag_parts -= name == "Xc" and self._tag_parts > 0
            self._close_explicit(ENCLOSED.get(_CLOSED[name], ("", ""))[1])
        else:
            words = self._special(name, words, is_last=is_last)
        before = "-" if name == "Fl" else ""
        for word in words:
            self._word(word, before)

    def _special(self, name: str, words: list[str], *, is_last: bool) -> list[str]:
        """Write what a macro does beside its words; gives the words that are still to be written."""
        first, rest = (words[0], words[1:]) if words else ("", [])
        match name:
            case "Fl" if not words:
                self._page.put("-")
                self._page.is_joint = not is_last
            case "Ns" | "Ap":
                self._page.is_joint = True
                if name == "Ap":
                    self._page.put("'")
                    self._page.is_joint = True
            case "Pf":
                self._word(first)
                self._page.is_joint = True
                return rest
            case "Nm":
                if words and first not in _CLOSING:
                    self._name = self._name or first
                elif self._name:
                    self._lines.spend(len(self._name))
                    return [self._name, *words]
            case "Xr":
                section = rest[:1] if rest and rest[0] not in _CLOSING else []
                self._page.put(self._lines.shown(first + (f"({section[0]})" if section else "")))
                return rest[len(section) :]
            case "Fn" | "Fo":
                self._function(first, rest, is_open=name == "Fo")
                return []
            case "Fc":
                self._page.is_joint = True
                self._page.put(");" if self.section == "SYNOPSIS" else ")")
                self._in_function = False
            case "Fa":
                self._arguments(words)
                return []
            case "In":
                self._page.put(("#include " if self.section == "SYNOPSIS" else "") + f"<{self._lines.shown(first)}>")
                return rest
            case "Lb":
                self._page.put(library(first))
                return rest
            case "St":
                self._page.put(STANDARDS.get(first, first))
                return rest
            case "Lk":
                self._page.put(" ".join(map(self._lines.shown, [*rest, f"<{first}>"])))
                return []
            case "Ex" | "Rv" if first == "-std":
                self._lines.spend(len(self._name))
                self._page.put(standard_sentence(name, [self._lines.shown(one) for one in rest], self._name))
                return []
            case "Bt" | "Ud":
                self._page.put("is currently in beta test." if name == "Bt" else "currently under development.")
            case "Sm":
                self._is_spaced = first != "off" if words else not self._is_spaced
                self._page.is_joint = False
                return []
            case "An" if first in ("-split", "-nosplit"):
                return []
            case "Ta":
                self._page.gap(Break.CELL)
            case "Eo":
                self._page.put(self._lines.shown(first))
                self._page.is_joint = True
                return rest
            case "Ec":
                self._page.is_joint = True
            case "Ft" | "Vt" if self.section == "SYNOPSIS":
                pass
            case _ if name in SYSTEMS:
                version = list(takewhile(lambda word: word not in _CLOSING, words))
                self._page.put(system(name, version))
                return words[len(version) :]
            case _ if name.startswith("%"):
                self._part(name, words)
                return []
            case _ if not words and name in _DEFAULTS:
                return [_DEFAULTS[name]]
        return words

    def _open(self, signs: tuple[str, str], *, is_explicit: bool = False) -> None:
        if signs[0]:
            self._page.put(signs[0])
            self._page.is_joint = True
        # An empty string marks an enclosure that its own macro closes.
        self._closers.append("" if is_explicit else signs[1])
        self._explicit += not self._closers[-1]

    def _close(self) -> None:
        sign = self._closers.pop()
        self._explicit -= not sign
        if sign:
            self._page.is_joint = True
            self._page.put(sign)

    def _close_explicit(self, sign: str) -> None:
        if self._explicit:
            while self._closers[-1]:
                self._close()
            self._close()
        if sign:
            self._page.is_joint = True
            self._page.put(sign)

    def _function(self, name: str, words: list[str], *, is_open: bool) -> None:
        if self.section == "SYNOPSIS" and not self._lists:
            self._page.gap(Break.LINE)
        self._page.put(self._lines.shown(name) + "(")
        self._page.is_joint = True
        if is_open:
            self._in_function = self._is_first_argument = True
            return
        end = next((at for at, word in enumerate(words) if word in _CLOSING), len(words))
        self._page.put(", ".join(map(self._lines.shown, words[:end])))
        self._page.is_joint = True
        self._page.put(");" if self.section == "SYNOPSIS" else ")")
        for word in words[end:]:
            self._word(word)

    def _arguments(self, words: list[str]) -> None:
        for place, word in enumerate(words):
            if word in _CLOSING:
                self._word(word)
                continue
            if (self._in_function and not self._is_first_argument) or (place and words[place - 1] not in _CLOSING):
                self._page.is_joint = True
                self._page.put(",")
            self._page.is_joint |= self._in_function and self._is_first_argument
            self._is_first_argument = False
            self._page.put(self._lines.shown(word))

    def _part(self, name: str, words: list[str]) -> None:
        """A part of a reference to a work; authors are listed together."""
        text = " ".join(map(self._lines.shown, words))
        if name == "%A":
            self._authors.append(text)
            return
        self._end_authors()
        self._write_part(text)

    def _end_authors(self) -> None:
        authors, self._authors = self._authors, []
        if authors:
            self._write_part(listed(authors))

    def _write_part(self, text: str) -> None:
        if not self._is_first_part:
            self._page.is_joint = True
            self._page.put(",")
        self._is_first_part = False
        self._page.put(text)

    # Blocks.

    def _shown(self, rest: str) -> str:
        return " ".join(self._lines.shown(word) for word, _ in quoted_arguments(rest))

    def _date(self, rest: str) -> None:
        self.date = self._shown(rest).removeprefix("$Mdocdate: ").removesuffix(" $")

    def _begin(self, rest: str) -> None:
        self.title = self._shown(rest).split()

    def _os(self, rest: str) -> None:
        self.system = self._shown(rest)

    def _paragraph(self, rest: str) -> None:
        self._page.gap(Break.PARAGRAPH)

    def _described(self, rest: str) -> None:
        self._page.put("—")
        self._line([("No", False), *quoted_arguments(rest)])

    def _one_line(self, rest: str) -> None:
        self._page.gap(Break.LINE)
        self._line([("No", False), *quoted_arguments(rest)])
        self._page.gap(Break.LINE)

    def _directive(self, rest: str) -> None:
        self._page.gap(Break.LINE)
        self._page.put(self._shown(rest))
        self._page.gap(Break.LINE)

    def _works(self, rest: str) -> None:
        self._is_first_part = True
        if self.section == "SEE ALSO":
            self._page.gap(Break.PARAGRAPH)

    def _end_works(self, rest: str) -> None:
        self._end_authors()
        if not self._is_first_part:
            self._page.is_joint = True
            self._page.put(".")

    def _list(self, rest: str) -> None:
        words = rest.split()
        kind = next((word[1:] for word in words if word.startswith("-")), "item")
        self._lists.append((kind, "-compact" in words, 0))
        self._page.gap(Break.LINE if "-compact" in words else Break.PARAGRAPH)

    def _end_list(self, rest: str) -> None:
        self._end_tag()
        if self._lists:
            self._lists.pop()
        self._page.gap(Break.LINE)

    def _item(self, rest: str) -> None:
        self._end_tag()
        kind, is_dense, count = self._lists[-1] if self._lists else ("tag", False, 0)
        if self._lists:
            self._lists[-1] = (kind, is_dense, count + 1)
        self._page.gap(Break.LINE if is_dense or kind == "column" else Break.PARAGRAPH)
        if kind == "enum":
            self._page.put(f"{count + 1}.")
        if kind == "column":
            self._line([("No", False), *quoted_arguments(rest.replace("\t", " Ta "))])
        elif rest.strip():
            self._is_tag = True
            self._line([("No", False), *quoted_arguments(rest)])

    def _end_tag(self) -> None:
        if self._is_tag:
            self._is_tag, self._tag_parts = False, 0
            kind = self._lists[-1][0] if self._lists else "tag"
            self._page.gap(Break.SPACE if kind in ("hang", "inset", "diag") else Break.LINE)

    def _display(self, rest: str) -> None:
        self._displays.append(self._page.filled)
        self._page.gap(Break.LINE if "-compact" in rest.split() else Break.PARAGRAPH)
        self._page.filled = not {"-literal", "-unfilled"} & set(rest.split())

    def _end_display(self, rest: str) -> None:
        self._page.filled = self._displays.pop() if self._displays else True
        self._page.gap(Break.LINE)
