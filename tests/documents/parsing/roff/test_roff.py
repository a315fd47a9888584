"""Manual pages in roff: what their macros show, what is left out and counted, and sources made to break a reader."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.documents.parsing.roff.reader import parse_roff
from graphdoc.errors import DocumentError

HEAD = ".TH SOW 1 2024 garden Manual\n.SH NAME\nsow \\- put seeds into the soil\n.SH DESCRIPTION\n"
MDOC = ".Dd May 1, 2024\n.Dt SOW 1\n.Os\n.Sh NAME\n.Nm sow\n.Nd put seeds into the soil\n.Sh DESCRIPTION\n"


def text(source: str, head: str = HEAD) -> str:
    return parse_roff(head + source).sections[-1].text


def dropped(source: str) -> dict[str, int]:
    return dict(parse_roff(HEAD + source).metadata.get("dropped_elements", {}))


def test_a_page_says_what_it_is() -> None:
    page = parse_roff(HEAD + "Deep.\n.SS Beans\nIn pairs.\n")
    assert page.title == "sow(1) - put seeds into the soil"
    assert page.metadata == {"manual_section": "1", "date": "2024", "source": "garden", "manual": "Manual"}
    found = [(section.level, section.heading, section.text) for section in page.sections]
    assert found[1:] == [(1, "DESCRIPTION", "Deep."), (2, "Beans", "In pairs.")]
    assert page.sections[2].path == ("DESCRIPTION", "Beans")
    assert parse_roff(MDOC + "Deep.").title == page.title


@pytest.mark.parametrize(
    ("header", "names", "title"),
    [
        ("MSGOP 2", "msgrcv, msgsnd \\- messages", "MSGOP(2) - messages"),
        ("GIT-UPDATE-SER 1", "git-update-server-info \\- help servers", "git-update-server-info(1) - help servers"),
        ("sow", "sow", "sow"),
        ("sow 1", "sow puts seeds into soil", "sow(1)"),
    ],
)
def test_titles(header: str, names: str, title: str) -> None:
    assert parse_roff(f".TH {header}\n.SH NAME\n{names}\n").title == title


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        # Fonts, characters and motions.
        ("\\fB\\-a\\fP, \\f(CWx\\f[R] \\s-2small\\s0\\&.", "-a, x small."),
        ("\\(lqcaf\\('e\\(rq \\[u2014] \\[e aa] \\[u0065_0301]", "“café” — é é"),
        ("a\\~b\\ c\\|d \\h'2n'e \\o'a\\(ga' \\N'65' \\e n\\\" a comment", "a b cd e a A \\ n"),
        ("\\*(lqrule\\*(rq\\*R", "“rule”®"),
        (".B two words\n.BR sow (1),\n.IR a b c", "two words sow(1), abc"),
        (".B\nnext line", "next line"),
        ("no\\c\n.B space", "nospace"),
        ("on \\c\n.B space", "on space"),
        ("long \\\nline", "long line"),
        # Paragraphs, lists and lines.
        ("a\n.PP\nb\n.br\nc\n\nd", "a\n\nb\nc\n\nd"),
        (".TP\n.B \\-a\nall\n.TP\n\\-b\nbest\n", "-a\nall\n\n-b\nbest"),
        (".PD 0\n.TP\n\\-a\nall\n.TP\n\\-b\nbest\n", "-a\nall\n-b\nbest"),
        (".TP\n\\-a\n.TQ\n\\-b\nboth", "-a\n-b\nboth"),
        (".IP \\(bu 2\none\n.IP 2.\ntwo\n.IP long 4\nthree", "one\n\n2. two\n\nlong\nthree"),
        (".nf\na\n  b \\\\\n\nc\n.fi\nd\ne", "a\n  b \\\n\nc\nd e"),
        (".EX\na\n  b\n.EE\nc", "a\n  b\nc"),
        ("see\n.UR https://a.org\nhere\n.UE .", "see here <https://a.org>."),
        (".SY sow\n.OP \\-d depth\n.YS", "sow [-d depth]"),
        (".MR sow 1 .", "sow(1)."),
        # Tables.
        (".TS\ntab(@) box;\nl l\nl l.\na@b\n_\nT{\n.B c\nd\nT}@e\n.TE\nf", "a\tb\nc d\te\n\nf"),
        (".TS\nl l\n.\na\tb\n.T&\nl.\nc\n.TE", "a\tb\nc"),
        # Definitions and conditions.
        ('.de Q\n.IP "\\\\$1 (\\\\$2)"\n\\\\$*\n..\n.Q a "b c"\n', "a (b c)\na b c"),
        (".ds x one\n.as x \\ two\n\\*x \\*[x]", "one two one two"),
        (".ie n terminal\n.el printer\n.if !n no\n.if t no\n.if n \\{\\\nyes\n.\\}", "terminal yes"),
        (".nr d 2+1\n.if \\nd>2 deep\n.if \\nd=2 flat\n.if 'a'a' same\n.if d ab no", "deep same"),
        (".ie t \\{\nno\n.if n \\{ no \\}\nno\n.\\}\n.el \\{\\\nyes\n.\\}\nalways", "yes always"),
        (".tr x*\naxa", "a*a"),
        (".als AB B\n.AB bold", "bold"),
        (".de SH\n.B \\\\$1\n..\nstays", "stays"),
        (".ig\nunseen\n..\nseen", "seen"),
        (".eo\n.de V\n\\fB\\$1\n..\n.ec\n.V x", "x"),
        # What nothing defines leaves its words.
        (".AP char *name in\n'tis said\n.bashrc is read", "char *name in 'tis said .bashrc is read"),
    ],
)
def test_what_is_shown(source: str, shown: str) -> None:
    assert text(source) == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (".Op Fl a Ar file .", "[-a file]."),
        (".Fl a , b", "-a, -b"),
        (".Fl Fl long Ns = Ns Ar n", "--long=n"),
        (".Ar\n.Nm\n.Nm sow ,", "file ... sow sow,"),
        (".Dq one Pq two\n.Do three Dc .", "“one (two)” “three”."),
        (".Oo Fl a\n.Op Fl b\n.Oc", "[-a [-b]]"),
        ('.Fn f "int a" b\n.Fo g\n.Fa x\n.Fa y\n.Fc .', "f(int a, b) g(x, y)."),
        (".Xr sow 1 ,\n.In a.h", "sow(1), <a.h>"),
        (".Bl -tag -width Ds\n.It Fl a Xo\n.Ar b\n.Xc\nall\n.It c\n.El", "-a b\nall\n\nc"),
        (".Bl -enum -compact\n.It\na\n.It\nb\n.El\nc", "1. a\n2. b\nc"),
        (".Bl -column A B\n.It a Ta b\n.It c\td\n.El", "a\tb\nc\td"),
        ("a\n.Bd -literal\nb\n  c\n.Ed\n.D1 Ic d\ne", "a\n\nb\n  c\nd\ne"),
        (".Sm off\n.Ar a : b\n.Sm on\nc", "a:b c"),
        ('.Pf ( Ar a ) "Fl"', "(a) Fl"),
        (".Rs\n.%A A. Bean\n.%A C. Pea\n.%T Soil\n.Re", "A. Bean and C. Pea, Soil."),
        (
            ".Ex -std\n.Bx 4.3 Reno\n.At v7",
            "The sow utility exits 0 on success, and >0 if an error occurs. 4.3BSD-Reno Version 7 AT&T UNIX",
        ),
        (".Lk https://a.org here\n.Mt a@b.org", "here <https://a.org> a@b.org"),
    ],
)
def test_what_mdoc_shows(source: str, shown: str) -> None:
    assert text(source, MDOC) == shown


def test_a_synopsis_of_mdoc_has_its_lines() -> None:
    source = '.Dt SOW 3\n.Sh SYNOPSIS\n.In sow.h\n.Ft int\n.Fn sow "int deep"\n.Nm reap\n.Op Fl a\n'
    assert parse_roff(source).sections[0].text == "#include <sow.h>\n\nint\nsow(int deep);\nreap [-a]"


def test_what_is_left_out_is_counted() -> None:
    source = '.\\" note\n\'\\" t\n.ig\nunseen\n..\n.if t printed\n.so man1/x.1\n.AP x\n.while 1 \\{\nx\n.\\}\nseen'
    assert dropped(source) == {"comment": 2, "ig": 1, "if": 2, "so": 1, "undefined macro": 1, "while": 1}
    assert dropped(".ds x y\n.nh\n.ne 3\nseen") == {}


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (".nr i 0 1\n.while \\n[i]<3 \\{\\\n.nr i +1\nround \\n[i]\n.\\}\nend", "round 1 round 2 round 3 end"),
        (".nr i 3\n.while \\n-[i] left \\n[i]\nend", "left 2 left 1 end"),
        (".de all\n.while \\\\n[.$] \\{\\\n.BI \\\\$1 ,\n.shift\n.\\}\n..\n.all a b c\nend", "a, b, c, end"),
        (".nr i 0\n.while 1 \\{\n.nr i +1\n.if \\n[i]>2 .break\nx\n.\\}\nend", "x x end"),
        (".nr i 0\n.while \\n[i]<4 \\{\n.nr i +1\n.if \\n[i]=2 .continue\n\\n[i]\n.\\}\nend", "1 3 4 end"),
        (
            ".nr i 0\n.while \\n+[i]<3 \\{\n.nr k 0\n.while \\n+[k]<3 \\{\nat \\n[i].\\n[k]\n.\\}\n.\\}\nend",
            "at 1.1 at 1.2 at 2.1 at 2.2 end",
        ),
        (".nr i 5\n.while \\n[i]<3 \\{\nunseen\n.\\}\nend", "end"),
        (".while 0 unseen\nend", "end"),
    ],
)
def test_loops_are_read_as_often_as_they_hold(source: str, shown: str) -> None:
    assert text(source) == shown


def test_a_loop_without_end_is_left_out_and_counted_or_refused() -> None:
    assert dropped(".while 1 \\{\nx\n.\\}\nseen")["while"] == 1
    assert dropped(".nr i 1\n.if n .while \\n[i] x\nseen")["while"] == 1
    with pytest.raises(DocumentError, match="grow"):
        parse_roff(f"{HEAD}.nr i 1\n.while \\n[i] \\{{\n.\\}}\nend")


@pytest.mark.parametrize("opening", [".de XX", ".ig", ".while \\n[i] \\{", ".if t \\{", ".de XX yy"])
def test_what_has_no_end_is_read_as_text(opening: str) -> None:
    page = parse_roff(f"{HEAD}before\n{opening}\nafter\n.SH LAST\nlast")
    assert page.sections[1].text == "before after" and page.sections[2].text == "last"
    assert len(page.metadata["warnings"]) == 1


@pytest.mark.parametrize(
    "source", [".TS\nl l.\na\tb\n.SH LAST\nlast", ".TS\nl l.\nT{\nx", ".TP\n.UR u\nx\n.SH LAST\nlast", ".nf\nx"]
)
def test_open_tables_and_lists_lose_nothing(source: str) -> None:
    words = set(
        re.findall(r"\w+", " ".join(f"{one.heading} {one.text}" for one in parse_roff(HEAD + source).sections))
    )
    assert set(re.findall(r"\b(?:LAST|last|a|b|x)\b", source)) <= words


def test_a_page_that_only_leads_to_another_is_named() -> None:
    with pytest.raises(DocumentError, match=re.escape("man1/other.1")):
        parse_roff('.\\" note\n.so man1/other.1\n')
    # Nothing is included.
    assert text("before\n.so /etc/passwd\nafter") == "before after"


MANY = 100_000
HOSTILE = {
    "indented": ".RS\n" * MANY + "x",
    "one line": "\\fBword\\h'" * MANY,
    "open brackets": "\\[\\*[" * MANY,
    "open delimiters": "".join(f"\\h{chr(0xF0000 + number)}" for number in range(65_000)),
    "quotation marks": '.B "' + '" ' * MANY,
    "conditions on a line": ".if n " * MANY,
    "branches without an end": ".if t \\{\n" * MANY,
    "blocks without an end": "".join(f".ig e{number}\n" for number in range(MANY)),
    "macros without an end": ".de X\n" * MANY,
    "a macro that calls itself": ".de A\n.A\n.A\n..\n.A\n",
    "arguments that grow": ".de A\n.A \\\\$* \\\\$*\n..\n.A a b\n",
    "strings of strings": "".join(
        f".ds {a} {f'{chr(92)}*{b}' * 9}\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    + "\\*a",
    "a string that grows": ".ds a xxxxxxxxx\n" + ".ds a \\*a\\*a\n" * 100,
    "a long macro called often": ".de A\n.ig\n" + "x\n" * MANY + "..\n..\n" + ".A\n" * MANY,
    "parentheses": ".nr a " + "(" * MANY,
    "cells": ".TS\nl.\n" + "T{\nx\nT}\tT{\n" * MANY,
    "nested lists": ".Bl -tag\n.It Fl x\n" * (MANY // 4),
    "nested brackets": ".Oo " + "Oo " * MANY,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_sources_are_read_or_refused_in_a_moment(name: str) -> None:
    """Quadratic work on these takes minutes; a limit of ten seconds holds on the slowest machine."""
    start = time.process_time()
    with suppress(DocumentError):
        parse_roff(HEAD + HOSTILE[name])
    assert time.process_time() - start < 10


_MACROS = r"""
.TP .IP .SH .SS .B .BR .RS .RE .nf .fi .EX .TS .TE .T& .UR .UE .SY .OP .PD .so .ig .. . ' .de .ds .as .nr .if .ie .el
.\} \{ \} \{\ n t !n .tr .als .rn .rm .return .shift .eo .ec .Sh .Ss .Nm .Op .Oo .Oc .Bl .It .El .Bd .Ed .Xo .Xc .Fl
.Fn .Fo .Fa .Fc .Rs .Re .%A .Sm .Ex .Bx -tag -column -std off T{ T} \fB \fR \- \(em \[u2014] \[ \( \ \\ \c \h'1'
\h' \*x \*( \n(.$ \$1 \$* \w'a' " \" \N'9' word a, x y ( ) . , | 1 2+2 tab(@); l. @
"""
_PIECES = st.sampled_from([*_MACROS.split(), "\t", *"\n" * 12])


@given(st.lists(_PIECES, max_size=60).map(" ".join) | st.text(alphabet=".'\\\"{}[]()*$n \tTHSPBRx1-\n", max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_source_is_read_or_refused(source: str) -> None:
    source = source.replace(" \n ", "\n")
    try:
        page = parse_roff(HEAD + source)
    except DocumentError:
        return
    for section in page.sections:
        assert section.heading or section.text


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    ".PP",
                    ".TP",
                    ".B {}",
                    ".IP {} 4",
                    ".RS",
                    ".RE",
                    ".br",
                    ".nf",
                    ".fi",
                    ".SS {}",
                    "{}",
                    "\\fB{}\\fR",
                    ".sp 2",
                ),
                *(".BR {} (1)", ".ad l", '.\\" note', ".if n {}", ".Op Fl {}", ".Pq {}", ".IR {} ,"),
            ]
        ),
        max_size=40,
    )
)
@settings(max_examples=200, deadline=None)
def test_words_stay_and_macros_go(lines: list[str]) -> None:
    """Each word comes out once and in order, and no line of what comes out is a request."""
    numbered = [line.format(f"word{number}") for number, line in enumerate(lines)]
    page = parse_roff(HEAD + "\n".join(numbered))
    shown = "\n".join(f"{section.heading}\n{section.text}" for section in page.sections)
    assert re.findall(r"word\d+", shown) == re.findall(r"word\d+", "\n".join(numbered))
    assert not re.search(r"^[.'][A-Za-z]", shown, re.MULTILINE) and "\\" not in shown
