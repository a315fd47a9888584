from __future__ import annotations

from collections.abc import Callable

import pytest

from graphdoc import DocumentEncoder
from graphdoc.errors import ModelError


def test_a_cross_encoder_without_a_head_is_refused(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder(views={"view_tokens": 24})
    with pytest.raises(ModelError) as caught:
        encoder.match("Rice is steamed. Koji grows.", "Tides rise. The sea is deep.")
    assert encoder.name in str(caught.value) and "head" in str(caught.value)
