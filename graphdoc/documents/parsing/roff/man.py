"""The macros of man(7), and the requests of roff that break lines, as text of a page."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..elements import names
from ..outline import Break
from .conditions import number
from .escapes import arguments
from .lines import Lines
from .macros import Macros
from .page import Page

# Requests that set type, page and margins.
WITHOUT_TEXT = names(
    "ad af bd c2 cc ch char chop color cp cs cu defcolor de di da box boxa dt ec em ev evc ex fam fc fchar fcolor fp "
    "fschar fspecial ft ftr fzoom gcolor hc hcode hl hla hlm hpf hw hy hym hys it itc kern lc linetabs lf lg ll ls "
    "lsm lt mc mk na ne nh nm nn nr nroff ns nx os pc pev pl pm pn pnr po ps psbb ptr pvs rchar rd rfschar rj rr rs "
    "rt schar sizes spreadwarn ss sty substring sv ta tag tc ti tkf tm tm1 tmc tr trf trin trnt uf ul unformat vpt vs "
    "warn warnscale wh hP ab "
    "AT UC DT PU IX LINKSTYLE PM LL GS GE GF EQ EN PS PE PF TC TA FN Vx DS1 hN"
)
_FONTS = names("B I SM SB R CW")
_ALTERNATING = names("BI BR IB IR RB RI")
_ENDS_TAG = names("TP TQ IP PP P LP HP RS RE sp TH")
_PAGES = names("TH TP TQ IP PP P LP HP PD EX EE nf fi sp UR UE MT ME URL MTO SY YS OP MR br RS RE in ti ce bp brp")
MAN = WITHOUT_TEXT | _FONTS | _ALTERNATING | _PAGES
_BULLET = re.compile(r"[•·◦‣▪∙*+–—-]")
_SHORT_TAG = re.compile(r"[(\[]?\w{1,3}[.)\]]|o")


class Man(Macros):
    """Writes what the macros of man(7) show."""

    def __init__(self, page: Page, lines: Lines) -> None:
        super().__init__(page, lines)
        # What the next line of text is: a tag, or a heading of a level.
        self._awaited: str | int = ""
        self._between_items = Break.PARAGRAPH
        self._link = ""
        self._pages: dict[str, Callable[[list[str]], None]] = {
            **{"TH": self._begin, "TP": self._tagged, "TQ": self._tagged_again, "IP": self._item},
            **dict.fromkeys(("PP", "P", "LP", "HP"), self._paragraph),
            **{"PD": self._distance, "EX": self._as_it_stands, "EE": self._filled, "nf": self._as_it_stands},
            **{"fi": self._filled, "sp": self._space, "UR": self._start_link, "UE": self._end_link},
            **{"MT": self._start_link, "ME": self._end_link, "URL": self._whole_link, "MTO": self._whole_link},
            **{"SY": self._synopsis, "YS": self._paragraph, "OP": self._option, "MR": self._reference},
            **dict.fromkeys(("br", "RS", "RE", "in", "ti", "ce", "bp", "brp"), self._line),
        }

    def heading(self, level: int, rest: str) -> None:
        """Begin a section; without a name, the next line is its name."""
        self.end_awaited()
        name = " ".join(self._lines.shown(one) for one in arguments(rest))
        if name.strip():
            self._page.start_section(name, level)
        else:
            self._awaited = level
            self._page.capture()

    def write(self, name: str, rest: str) -> bool:
        """Write a macro; False if it is none of man(7)."""
        if name in _FONTS or name in _ALTERNATING:
            words = arguments(rest)
            joined = ("" if name in _ALTERNATING else " ").join(words)
            if words:
                self.text(joined)
            return True
        shows = self._pages.get(name)
        if shows is None:
            return name in WITHOUT_TEXT
        if name in _ENDS_TAG:
            self.end_awaited()
        shows(arguments(rest))
        return True

    def text(self, raw: str) -> None:
        """Write a line of text."""
        if not raw.strip():
            self._page.gap(Break.PARAGRAPH)
            return
        goes_on = raw.endswith("\\c")
        self._page.put_line(self._lines.shown(raw), goes_on=goes_on)
        if self._awaited and not goes_on and self._page.wrote and not self._link:
            self.end_awaited()

    def end_awaited(self) -> None:
        """The tag or heading that was waited for is over."""
        awaited, self._awaited = self._awaited, ""
        if not awaited:
            return
        text = self._page.captured()
        if isinstance(awaited, str):
            self._tag(text)
        elif text:
            self._page.start_section(text, awaited)

    def _tag(self, text: str) -> None:
        if text and not _BULLET.fullmatch(text):
            self._page.put(text)
            self._page.gap(Break.SPACE if _SHORT_TAG.fullmatch(text) else Break.LINE)

    def _begin(self, words: list[str]) -> None:
        if not self.title:
            self.title = [self._lines.shown(word) for word in words]

    def _paragraph(self, words: list[str]) -> None:
        self._page.gap(Break.PARAGRAPH)

    def _line(self, words: list[str]) -> None:
        self._page.gap(Break.LINE)

    def _tagged(self, words: list[str]) -> None:
        self._page.gap(self._between_items)
        self._awaited = "tag"
        self._page.capture()

    def _tagged_again(self, words: list[str]) -> None:
        self._page.gap(Break.LINE)
        self._awaited = "tag"
        self._page.capture()

    def _item(self, words: list[str]) -> None:
        self._page.gap(self._between_items)
        self._tag(" ".join(self._lines.shown(words[0]).split()) if words else "")

    def _distance(self, words: list[str]) -> None:
        self._between_items = Break.PARAGRAPH if not words or number(words[0]) > 0 else Break.LINE

    def _as_it_stands(self, words: list[str]) -> None:
        self._page.gap(Break.LINE)
        self._page.filled = False

    def _filled(self, words: list[str]) -> None:
        self._page.gap(Break.LINE)
        self._page.filled = True

    def _space(self, words: list[str]) -> None:
        self._page.gap(Break.PARAGRAPH if not words or number(words[0]) > 0 else Break.LINE)

    def _start_link(self, words: list[str]) -> None:
        self._link = self._lines.shown(words[0]) if words else ""

    def _end_link(self, words: list[str]) -> None:
        link, self._link = self._link, ""
        self.text(f"<{link}>{''.join(words)}".replace("\\", "\\e") if link else " ".join(words))

    def _whole_link(self, words: list[str]) -> None:
        link, name, after = (*words[:3], "", "", "")[:3]
        self.text(f"{name} <{link}>{after}" if name else f"<{link}>{after}")

    def _synopsis(self, words: list[str]) -> None:
        self._page.gap(Break.LINE)
        self._page.put(self._lines.shown(" ".join(words)))

    def _option(self, words: list[str]) -> None:
        self.text(f"[{' '.join(words)}]")

    def _reference(self, words: list[str]) -> None:
        name, section, after = (*words[:3], "", "", "")[:3]
        self.text(f"{name}({section}){after}" if section else name)
