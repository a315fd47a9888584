"""Two texts in one passage that see less of each other than of themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig

from graphdoc.errors import GraphdocError, SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.joined_graphs import JoinedGraphs
from graphdoc.graphs.packing import Packing
from graphdoc.inference.precision import computed_in
from graphdoc.modeling import DocumentModel
from graphdoc.modeling.passage_encoder import PassageEncoder
from graphdoc.modeling.two_texts import KINDS, check_transformer, own_positions, weighed_mask

ModelFactory = Callable[..., DocumentModel]
PAIR = {"pooling": "pair", "projection_size": None, "graph_layers": 0, "readout": "mean"}
# Tokens of both texts of three passages of different lengths.
TEXTS = [([2, 11, 12, 13, 3], [2, 21, 3]), ([2, 31, 3], [2, 41, 42, 43, 44, 45, 3]), ([2, 51, 52, 3], [2, 61, 62, 3])]


def batch_of(texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> GraphBatch:
    """Passages of two texts."""
    ids = tuple(np.array([*first, *second]) for first, second in texts)
    starts = tuple(len(first) for first, _ in texts)
    return GraphBatch.from_graphs(JoinedGraphs.of_queries([0] * len(ids)), ids, second_from=starts)


def means_alone(encoder: PassageEncoder, texts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Means of the tokens of texts that are read by themselves, of unit length."""
    means = [encoder.transformer(input_ids=torch.tensor([list(ids)])).last_hidden_state[0].mean(0) for ids in texts]
    return torch.nn.functional.normalize(torch.stack(means), dim=-1)


@pytest.mark.parametrize("weight", [0.0, 0.135, 1.0])
def test_attention_is_weighed_as_the_formula_says(weight: float) -> None:
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(2, 6, 6))
    there = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]])
    second = np.array([[0, 0, 0, 1, 1, 0], [0, 1, 1, 0, 0, 0]])
    mask = weighed_mask(torch.tensor(second), torch.tensor(there), weight, torch.float32)
    assert mask.shape == (2, 1, 6, 6)
    found = torch.softmax(torch.tensor(scores, dtype=torch.float32) + mask[:, 0], dim=-1).numpy()
    for passage in range(2):
        for token in np.flatnonzero(there[passage]):
            weights = [
                there[passage][other] * (1.0 if second[passage][other] == second[passage][token] else weight)
                for other in range(6)
            ]
            expected = np.array(weights) * np.exp(scores[passage, token])
            np.testing.assert_allclose(found[passage, token], expected / expected.sum(), atol=1e-6)


def test_positions_begin_anew_with_the_second_text(tiny_encoder_config: Callable[..., object]) -> None:
    types, there = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]]), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    found = own_positions(types, there, tiny_encoder_config("bert"))
    assert found.where(there.bool(), -1).tolist() == [[0, 1, 2, 0, 1], [0, 0, 1, -1, -1]]
    config = tiny_encoder_config("roberta")
    behind = own_positions(types, there, config) - found
    assert set(behind.flatten().tolist()) == {config.pad_token_id + 1}


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_texts_that_do_not_see_each_other_are_as_if_alone(tiny_model: ModelFactory, kind: str) -> None:
    model = tiny_model(kind, **PAIR, attention_across=0.0).eval()
    width = model.config.encoder_config.hidden_size
    found = model.encode_passages(batch_of(TEXTS), Packing(1000, 1.0)) / width**0.5
    for side in (0, 1):
        alone = means_alone(model.passage_encoder, [texts[side] for texts in TEXTS])
        torch.testing.assert_close(found[:, side * width : (side + 1) * width], alone, atol=1e-5, rtol=1e-5)
    # What differs from it is what the texts see of each other.
    model.passage_encoder.attention_across = 0.3
    seen = model.encode_passages(batch_of(TEXTS), Packing(1000, 1.0)) / width**0.5
    assert float((seen - found).abs().amax(dim=1).min()) > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_neighbours_in_a_batch_change_nothing(tiny_model: ModelFactory, kind: str) -> None:
    model = tiny_model(kind, **PAIR, attention_across=0.2).eval()
    together = model.encode_passages(batch_of(TEXTS), Packing(1000, 1.0))
    alone = torch.cat([model.encode_passages(batch_of([texts])) for texts in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_ways_to_compute_attention_agree(tiny_model: ModelFactory) -> None:
    model = tiny_model("bert", **PAIR, attention_across=0.2).eval()
    found = []
    for way in ("eager", "sdpa"):
        model.passage_encoder.use_attention(way, "float32", torch.device("cpu"))
        found.append(model.encode_passages(batch_of(TEXTS)))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)
    with computed_in("bfloat16", model, "model"):
        rough = model.encode_passages(batch_of(TEXTS))
    torch.testing.assert_close(rough, found[0], atol=0.2, rtol=0.1)
    for way in ("flash_attention_2", "flex_attention"):
        with pytest.raises(SettingsError, match="attention_across"):
            model.passage_encoder.use_attention(way, "bfloat16", torch.device("cuda"))


def test_what_both_see_of_each_other_is_trained(tiny_model: ModelFactory) -> None:
    model = tiny_model("roberta", **PAIR, attention_across=0.2, labels=["different", "similar"])
    model(batch_of(TEXTS)).logits.sum().backward()
    assert all(
        parameter.grad is not None and bool(torch.isfinite(parameter.grad).all())
        for name, parameter in model.passage_encoder.named_parameters()
        if "token_type" not in name
    )


def test_it_is_part_of_the_model(tiny_model: ModelFactory, tmp_path: Path) -> None:
    model = tiny_model("bert", **PAIR, attention_across=0.2)
    model.save_pretrained(tmp_path)
    loaded = DocumentModel.from_pretrained(tmp_path)
    assert loaded.passage_encoder.attention_across == loaded.config.describe()["attention_across"] == 0.2
    assert "attention_across" not in tiny_model("bert", **PAIR).config.describe()


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        ("bert", {"pooling": "mean"}, "pooling=pair"),
        ("modernbert", PAIR, "modernbert"),
        ("bert", {"pooling": "mean"}, "attention_across=1"),
        ("bert", {**PAIR, "attention_across": 1.5}, "attention_across"),
        ("bert", {**PAIR, "attention_across": float("nan")}, "attention_across"),
    ],
)
def test_where_it_cannot_be_it_is_refused(
    tiny_model: ModelFactory, kind: str, changed: dict[str, object], said: str
) -> None:
    assert "modernbert" not in KINDS
    with pytest.raises((ValueError, GraphdocError), match=said):
        tiny_model(kind, **{"attention_across": 0.5, **changed})


def test_a_decoder_is_refused() -> None:
    # Its mask of what came before would be left out.
    with pytest.raises(ValueError, match="is_decoder"):
        check_transformer(BertConfig(is_decoder=True))
    check_transformer(BertConfig())
