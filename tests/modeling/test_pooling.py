from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from graphdoc.errors import GraphdocError, ModelError, SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.modeling import DocumentModel
from graphdoc.modeling.pooling import COSINE_DEVIATION, COSINE_MIDDLE, START_LOGIT, PairPooling
from graphdoc.registry import POOLINGS, load
from graphdoc.segmentation.spans import SegmentedDocument

ModelFactory = Callable[..., DocumentModel]
PAIR = {"pooling": "pair", "projection_size": None, "graph_layers": 0, "readout": "mean"}


def random_tokens(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens of three passages of two texts, with padding."""
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(3, 9, 8, generator=draw) + 0.5
    mask, types = torch.zeros(3, 9, dtype=torch.long), torch.zeros(3, 9, dtype=torch.long)
    for row, (first, both) in enumerate([(3, 9), (4, 7), (1, 2)]):
        mask[row, :both] = 1
        types[row, first:both] = 1
    return hidden, mask, types


def numpy_parts(hidden: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> list[np.ndarray]:
    """Unit means of both texts of every passage, from the definition."""
    rows = []
    for tokens, there, of_second in zip(hidden.double().numpy(), mask.numpy(), types.numpy(), strict=True):
        means = [tokens[(there == 1) & (of_second == side)].mean(axis=0) for side in (0, 1)]
        rows.append(np.stack([mean / np.linalg.norm(mean) for mean in means]))
    return rows


def test_both_means_their_product_and_their_difference() -> None:
    hidden, mask, types = random_tokens()
    found = PairPooling()(hidden, mask, types).double().numpy()
    for row, (first, second) in zip(found, numpy_parts(hidden, mask, types), strict=True):
        root = np.sqrt(8)
        expected = np.concatenate([first * root, second * root, first * second * 8, np.abs(first - second) * root])
        np.testing.assert_allclose(row, expected, atol=1e-5)


def test_padding_and_the_order_of_texts() -> None:
    hidden, mask, types = random_tokens()
    noise = torch.where(mask.unsqueeze(-1) == 1, hidden, torch.full_like(hidden, 7.0))
    torch.testing.assert_close(PairPooling()(noise, mask, types), PairPooling()(hidden, mask, types))
    turned = PairPooling()(hidden, mask, (1 - types) * mask)
    straight = PairPooling()(hidden, mask, types)
    torch.testing.assert_close(turned[:, :8], straight[:, 8:16])
    torch.testing.assert_close(turned[:, 16:], straight[:, 16:])


@pytest.mark.parametrize("across", [1.0, 0.25, 0.0])
def test_a_head_begins_with_the_cosine(tiny_model: ModelFactory, across: float) -> None:
    model = tiny_model("bert", **PAIR, attention_across=across)
    head = model.add_head(["different", "similar"]).eval()
    hidden, mask, types = random_tokens(1)
    wide = hidden.repeat(1, 1, model.config.passage_size // (4 * hidden.shape[-1]))
    logits = head(PairPooling()(wide, mask, types)).detach().double().numpy()
    cosines = np.array([float(first @ second) for first, second in numpy_parts(wide, mask, types)])
    middle, deviation = (
        alone + np.sqrt(across) * (joined - alone) for alone, joined in (COSINE_MIDDLE, COSINE_DEVIATION)
    )
    np.testing.assert_allclose(
        logits[:, 1] - logits[:, 0], START_LOGIT * (cosines - middle) / deviation, rtol=1e-5, atol=1e-4
    )
    np.testing.assert_allclose(logits.sum(axis=1), 0, atol=1e-5)


def test_vectors_are_as_wide_as_the_model_takes_them(tiny_model: ModelFactory) -> None:
    model = tiny_model("bert", **PAIR)
    assert model.config.passage_size == model.config.node_size == model.config.hidden_size
    assert model.config.passage_size == 4 * model.config.encoder_config.hidden_size
    ids = (np.array([2, 5, 6, 3, 7, 3]), np.array([2, 9, 3, 8, 8, 8, 3]))
    batch = GraphBatch.of_passages(ids)
    with pytest.raises(ModelError, match="views"):
        model.encode_passages(batch)


def test_every_pooling_says_how_wide_it_is(tiny_model: ModelFactory) -> None:
    hidden, mask, types = random_tokens()
    for name, target in POOLINGS.items():
        pooling = load(target)()
        assert pooling(hidden, mask, types).shape == (3, pooling.width(8)), name
        assert pooling(hidden.bfloat16(), mask, types).dtype == torch.float32


@pytest.mark.parametrize(
    ("changed", "fix"),
    [
        ({"projection_size": 16}, "projection_size=null"),
        ({"graph_layers": 1}, "graph_layers=0"),
        ({"normalize_passages": True}, "normalize_passages=false"),
        ({"readout": "sections"}, "readout=mean"),
    ],
)
def test_nothing_stands_between_a_pair_and_its_head(
    tiny_model: ModelFactory, changed: dict[str, object], fix: str
) -> None:
    with pytest.raises((ValueError, GraphdocError), match=fix):
        tiny_model("bert", **{**PAIR, **changed})


def test_single_documents_have_no_pair(
    tiny_model: ModelFactory, random_document: Callable[..., SegmentedDocument]
) -> None:
    model = tiny_model("bert", **PAIR)
    with pytest.raises(ModelError, match="pooling=mean"):
        model(GraphBatch.from_documents([random_document([0, 0])], "full"))
    with pytest.raises(SettingsError, match="pooling"):
        tiny_model("bert", pooling="sum")
