from __future__ import annotations

import numpy as np
import pytest
import torch

from graphdoc.errors import SettingsError
from graphdoc.registry import POOLINGS, load


@pytest.mark.parametrize("name", POOLINGS)
def test_every_pooling_by_its_definition(name: str) -> None:
    hidden = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5, [1] + [0] * 8])
    found = load(POOLINGS[name])()(hidden, mask)
    tokens = hidden.double().numpy()
    expected = [
        row[0] if name == "cls" else row[:count].mean(axis=0)
        for row, count in zip(tokens, mask.sum(1).tolist(), strict=True)
    ]
    np.testing.assert_allclose(found.double().numpy(), expected, atol=1e-6)
    assert load(POOLINGS[name])()(hidden.bfloat16(), mask).dtype == torch.float32


def test_an_unknown_pooling(tiny_model: object) -> None:
    with pytest.raises(SettingsError, match="pooling"):
        tiny_model("bert", pooling="sum")  # type: ignore[operator]
