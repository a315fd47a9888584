"""The registry imports what it names, and says what it cannot find."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.errors import SettingsError
from graphdoc.registry import load


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        ("graphdoc.recipes.no_such_file:train", "graphdoc.recipes.no_such_file"),
        ("no_such_package.part:train", "no_such_package"),
        ("graphdoc.registry:no_such_name", "no_such_name"),
    ],
)
def test_what_is_not_there_is_named(target: str, missing: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(target)
    assert missing in str(raised.value) and target in str(raised.value)


def test_a_library_that_a_part_needs_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_part.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as raised:
        load("own_part:train")
    assert raised.value.name == "no_such_library"
