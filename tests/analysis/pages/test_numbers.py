from __future__ import annotations

from graphdoc.analysis.pages.page import decimals, number


def test_what_rounds_to_zero_has_no_sign() -> None:
    shown = [number(value) for value in (-0.0004, 0.0004, -0.0006, None)]
    assert shown == ["0.000", "0.000", "\u22120.001", "no value"]


def test_a_column_keeps_four_digits_of_its_largest_number() -> None:
    columns = ([0.0325], [31.2, 0.001], [-1234.5], [123456.0], [1e-12], [0.0], [])
    assert [decimals(column) for column in columns] == [5, 2, 0, 0, 6, 3, 3]
