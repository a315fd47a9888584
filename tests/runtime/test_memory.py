from __future__ import annotations

import gc

import pytest

from graphdoc.runtime.memory import quick_imports


def test_the_collector_rests_and_goes_on() -> None:
    assert gc.isenabled()
    with pytest.raises(ImportError), quick_imports():
        assert not gc.isenabled()
        with quick_imports():
            assert not gc.isenabled()
        assert not gc.isenabled()
        import no_such_module  # noqa: F401
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
