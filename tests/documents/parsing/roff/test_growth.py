"""Sources of manual pages made to take long or to grow: read with what they say, or refused by the budget."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from graphdoc.documents.parsing.files import parse_file
from graphdoc.documents.parsing.formats import decode
from graphdoc.documents.parsing.roff.reader import parse_roff
from graphdoc.errors import DocumentError

HEAD = ".TH SOW 1\n.SH NAME\nsow \\- put seeds into the soil\n.SH LAST\n"
MANY = 400_000


def last(source: str) -> tuple[str, str]:
    section = parse_roff(HEAD + source).sections[-1]
    return section.heading, section.text


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (f".SH a{' ' * MANY}\nb", ("a", "b")),
        (f"{chr(92) * MANY}a\\\nb", ("LAST", chr(92) * (MANY // 2) + "ab")),
        (f".if {'!' * MANY}n shown", ("LAST", "shown")),
        (f".if {'! ' * (MANY + 1)}n hidden\nshown", ("LAST", "shown")),
        (f".tr {chr(92)}[{f'{chr(92)}[' * MANY}\nshown", ("LAST", "shown")),
    ],
    ids=["spaces", "backslashes", "even negations", "odd negations", "brackets"],
)
def test_long_lines_are_gone_through_once(source: str, shown: tuple[str, str]) -> None:
    """Of lines as long as these, work that grows with the square of their length takes minutes."""
    assert last(source) == shown


def test_enclosures_are_closed_without_a_search() -> None:
    count = MANY // 4
    text = parse_roff(f".Sh LAST\n.Op {'Op ' * count}{'Oc ' * count}x").sections[-1].text
    assert (text.count("["), text.count("x")) == (count + 1, 1) and text.count("]") == 2 * count + 1


@pytest.mark.parametrize(
    "source",
    [
        f".Nm {'n' * 100_000}\n" + ".Nm\n" * 10_000,
        f".Nm {'n' * 100_000}\n" + ".Ex -std\n" * 10_000,
        ".de A\n" + "\\\\$*\n" * 5_000 + f"..\n.A {'a' * MANY}\n",
        ".de A\n" + "\\\\$1" * 50_000 + f"\n..\n.A {'a' * MANY}\n",
        f".tr a\\[{'x' * 199}]\n{'a' * MANY}\n",
    ],
    ids=["names", "sentences", "arguments", "arguments of one line", "characters"],
)
def test_what_grows_far_beyond_its_source_is_refused(source: str) -> None:
    with pytest.raises(DocumentError, match="grow"):
        parse_roff(HEAD + source)


@pytest.mark.parametrize("end", ["", ".TE\n", ".SH MORE\nmore\n"])
def test_a_table_whose_layout_never_ends_keeps_its_text(end: str) -> None:
    page = parse_roff(f"{HEAD}.TS\ntab(@);\nl l\nsow@reap\nT{{\ndeep\nT}}\n{end}")
    assert page.sections[1].text.split() == ["l", "l", "sow", "reap", "deep"]
    assert len(page.sections) == 2 + (end.startswith(".SH"))


@pytest.mark.parametrize("sign", ["\\N'55296'", "\\[uD800]", "\\[char0]"])
def test_titles_and_metadata_are_cleaned_as_text_is(sign: str) -> None:
    page = parse_roff(f".TH SO{sign}W 1 20{sign}24\n.SH OTHER\nx\n")
    for value in (page.title, page.metadata["date"]):
        assert "\0" not in value and value.encode("utf-8")


def test_a_declaration_that_cannot_be_true_is_ignored() -> None:
    for name in ("utf-16", "utf-32-le", "cp037"):
        content = f'.\\" -*- coding: {name} -*-\n.TH L 1\ncaf\xe9.'.encode("latin-1")
        with pytest.raises(DocumentError, match="0xe9"):
            decode(content + b"\n" * (-len(content) % 4), "utf-8", "roff")


def test_data_behind_the_end_of_gzip_data_are_named(tmp_path: Path) -> None:
    path = tmp_path / "sow.1.gz"
    path.write_bytes(gzip.compress(HEAD.encode()) + b"garbage")
    with pytest.raises(DocumentError) as found:
        parse_file(path)
    assert "not a gzip file" not in str(found.value)
