from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig

from graphdoc.errors import ModelError
from graphdoc.graphs.batch import GraphBatch, Packing
from graphdoc.inference.precision import computed_in
from graphdoc.modeling import DocumentModel
from graphdoc.modeling.passage_encoder import STEPS, PassageEncoder, QuickDropout, dropout
from graphdoc.registry import POOLINGS

LAYOUTS: list[list[int]] = [[0], [0, 0, 1, 1, 1, 2], [5, 5, 2, 9, 2, 2], [0] * 11]


def by_hand(encoder: PassageEncoder, pooling: str, **inputs: Tensor) -> Tensor:
    """One passage without padding through the bare transformer."""
    hidden = encoder.transformer(**inputs).last_hidden_state[0]
    return {"cls": hidden[0], "last": hidden[-1], "mean": hidden.mean(0)}[pooling]


def pooled(encoder: PassageEncoder, ids: Tensor, mask: Tensor) -> Tensor:
    return encoder.pool(encoder.tokens(ids, mask), mask)


@pytest.fixture
def batch(random_document: Callable[..., Any]) -> GraphBatch:
    documents = [random_document(layout, seed=seed) for seed, layout in enumerate(LAYOUTS)]
    return GraphBatch.from_documents(documents, "full", split=True)


@torch.no_grad()
@pytest.mark.parametrize("pooling", POOLINGS)
def test_mini_batches_encode_every_passage_as_if_alone(
    pooling: str, encoder_name: str, tiny_model, batch: GraphBatch
) -> None:
    model = tiny_model(encoder_name, pooling=pooling)
    done: list[int] = []
    expected = torch.stack(
        [by_hand(model.passage_encoder, pooling, input_ids=torch.tensor([ids])) for ids in batch.token_ids]
    )
    for packing in (Packing(200), Packing(1), Packing(10_000), None):
        actual = model.encode_passages(batch, packing, progress=done.append)
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
        assert sum(done) == sum(map(len, LAYOUTS))
        done.clear()
    # What stands in the padding does not matter, where positions are not counted from the padding token.
    if encoder_name != "roberta":
        ids = torch.randint(4, 100, (1, 50))
        ids[0, : len(batch.token_ids[3])] = torch.tensor(batch.token_ids[3])
        mask = (torch.arange(50) < len(batch.token_ids[3])).long().unsqueeze(0)
        torch.testing.assert_close(pooled(model.passage_encoder, ids, mask)[0], expected[3], atol=1e-5, rtol=1e-5)
    assert model.passage_encoder.pool(torch.randn(1, 9, 24).bfloat16(), torch.ones(1, 9).long()).dtype == torch.float32


def test_a_transformer_that_mixes_types_is_refused_in_one_line() -> None:
    """DeBERTa casts parts of its attention back to fp32 by itself, and then multiplies both types."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = AutoConfig.for_model("deberta", vocab_size=50, relative_attention=True, pos_att_type=["c2p"], **sizes)
    encoder = PassageEncoder(config, "mean").eval()
    ids = torch.arange(5, 12).unsqueeze(0)
    with computed_in("float32", encoder, "it"):
        assert pooled(encoder, ids, torch.ones_like(ids)).shape == (1, 32)
    with pytest.raises(ModelError, match="bfloat16"), computed_in("bfloat16", encoder, "it"):
        pooled(encoder, ids, torch.ones_like(ids))
    with pytest.raises(RuntimeError, match="a fault"), computed_in("bfloat16", encoder, "it"):
        raise RuntimeError("a fault of another kind")


def drawn(model: DocumentModel) -> DocumentModel:
    """Fill the tables, which start at zero, so that they show."""
    with torch.no_grad():
        for table in model.structural_embeddings.parameters():
            table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(7)))
    return model


@torch.no_grad()
def test_section_and_chunk_are_added_to_what_the_transformer_is_given(
    encoder_name: str, tiny_model, batch: GraphBatch
) -> None:
    """CoLDE, section 3.1: every token's input embedding is T + S + C; the last rows stand for all beyond."""
    plain = tiny_model(encoder_name)
    model = tiny_model(encoder_name, structural_embeddings=True, structural_sections=3, structural_chunks=5)
    model.load_state_dict(plain.state_dict(), strict=False)
    # A model starts at its pretrained encoder.
    assert torch.equal(model.encode_passages(batch), plain.encode_passages(batch))
    sections, chunks = drawn(model).structural_embeddings.sections, model.structural_embeddings.chunks
    expected, rows = [], iter(batch.token_ids)
    for layout in LAYOUTS:
        for row, own in enumerate(layout):
            section = list(dict.fromkeys(layout)).index(own)
            words = model.passage_encoder.transformer.get_input_embeddings().weight[list(next(rows))]
            embeddings = words + sections[min(section, 2)] + chunks[min(layout[:row].count(own), 4)]
            expected.append(by_hand(model.passage_encoder, "cls", inputs_embeds=embeddings[None]))
    for budget in (100, 4000):
        found = model.encode_passages(batch, Packing(budget))
        torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_what_is_trained_below_passage_vectors(tiny_model, batch: GraphBatch) -> None:
    model = drawn(tiny_model(structural_embeddings=True, structural_chunks=20)).train()
    model(batch).documents.square().sum().backward()
    # Three sections at most; eleven chunks, in the last document.
    for table, used in ((model.structural_embeddings.sections, 3), (model.structural_embeddings.chunks, 11)):
        assert bool(table.grad[:used].abs().amax(1).gt(0).all()) and not bool(table.grad[used:].any())
    model.passage_encoder.requires_grad_(False)
    assert model.trains_passage_vectors
    model.structural_embeddings.requires_grad_(False)
    assert not model.trains_passage_vectors


BERT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
MODERN_BERT = {"attention_dropout": 0.2, "embedding_dropout": 0.2, "mlp_dropout": 0.2}


@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 0.1), (torch.float64, 0.5), (torch.bfloat16, 0.93)])
def test_a_share_is_zero_and_the_rest_is_scaled(dtype: torch.dtype, share: float) -> None:
    values = torch.randn(257, 1023).abs().add(0.5).neg().to(dtype)
    dropped = dropout(values, share)
    is_zero = dropped == 0
    tolerance = 5 * (share * (1 - share) / values.numel()) ** 0.5
    assert float(is_zero.double().mean()) == pytest.approx(share, abs=tolerance)
    kept = 1 - round(share * STEPS) / STEPS
    assert dropped.dtype == dtype
    expected = values[~is_zero].double() / kept
    torch.testing.assert_close(dropped[~is_zero].double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=0)
    # Elements that share a random number fall independently of each other: in pairs as often as chance has it.
    for distance in (1, 2, 3, 4):
        both = (is_zero[:, distance:] & is_zero[:, :-distance]).double().mean()
        assert float(both) == pytest.approx(share**2, abs=5 * (share**2 / values.numel()) ** 0.5 + 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_pass_without_gradient_draws_the_same_to_the_last_bit(dtype: torch.dtype) -> None:
    for values in (torch.randn(0), torch.randn(5), torch.randn(2, 3, 4, 5), torch.randn(6, 7, 2)[..., 0]):
        values = values.to(dtype)
        before, results = values.clone(), []
        for gradient in (False, True):
            torch.manual_seed(4)
            with torch.set_grad_enabled(gradient):
                results.append((dropout(values, 0.3), torch.rand(1)))
        assert all(map(torch.equal, *results)) and torch.equal(values, before), "what comes in stays as it is"
    for share in (0.0, 1e-9, 1.0):
        assert torch.equal(dropout(torch.ones(30), share), torch.full((30,), float(share < 0.5)))
    values = torch.randn(50, 60, requires_grad=True)
    dropped = dropout(values, 0.25)
    dropped.sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(values.grad, (dropped != 0) / 0.75)


@pytest.mark.parametrize(("kind", "scale"), [("none", 0.3), ("bool", None), ("float", 0.3)])
def test_attention_is_that_of_torch_but_for_its_mask(kind: str, scale: float | None) -> None:
    query, key = (torch.randn(2, 3, 6, 4) for _ in range(2))
    # With the unit matrix for values the result is the weights.
    value = torch.eye(6).expand(2, 3, 6, 6)
    is_seen = torch.rand(2, 1, 6, 6) > 0.3
    is_seen[..., 0] = True
    mask = {"none": None, "bool": is_seen, "float": torch.randn(2, 1, 6, 6)}[kind]
    weights = functional.scaled_dot_product_attention(query, key, value, mask, scale=scale)
    with QuickDropout():
        dropped = functional.scaled_dot_product_attention(query, key, value, mask, dropout_p=0.25, scale=scale)
        untouched = functional.scaled_dot_product_attention(query, key, value, mask, dropout_p=0.0, scale=scale)
    is_kept = dropped != 0
    assert 0.5 < float(is_kept[weights > 0].float().mean()) < 0.95
    torch.testing.assert_close(dropped[is_kept], weights[is_kept] / 0.75)
    assert torch.equal(untouched, weights)
    with FakeTensorMode() as mode, QuickDropout():
        fake = mode.from_tensor(torch.ones(2, 1, 5, 4))
        assert functional.dropout(fake, 0.5).shape == fake.shape
        assert functional.scaled_dot_product_attention(fake, fake, fake, dropout_p=0.5).shape == fake.shape


IDS = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(0))
MASK = torch.arange(9) < torch.tensor([9, 6, 9]).unsqueeze(1)


def draws_of_torch(encoder: PassageEncoder, gradient: bool = True) -> tuple[int, Tensor]:
    """How often torch drew masks element by element, and the passage vectors."""
    torch.manual_seed(6)
    with profile(activities=[ProfilerActivity.CPU]) as profiled, torch.set_grad_enabled(gradient):
        vectors = pooled(encoder, IDS, MASK.long())
    return sum(event.count for event in profiled.key_averages() if "bernoulli" in event.key), vectors


@pytest.mark.parametrize("gradient", [True, False])
def test_transformers_in_training(encoder_name: str, tiny_encoder_config: Callable[..., Any], gradient: bool) -> None:
    settings = MODERN_BERT if encoder_name == "modernbert" else BERT
    encoder = PassageEncoder(tiny_encoder_config(encoder_name, **settings), "mean").train()
    count, vectors = draws_of_torch(encoder, gradient)
    assert count == 0
    assert not torch.allclose(draws_of_torch(encoder.eval(), gradient)[1], vectors), "there is dropout"


def test_not_where_parts_are_computed_twice_outside(tiny_encoder_config: Callable[..., Any]) -> None:
    """With gradient checkpointing the second computation has to draw the same masks as the first."""
    encoder = PassageEncoder(tiny_encoder_config("roberta", **BERT), "mean").train()
    encoder.transformer.activation_checkpointing_enable({"use_reentrant": False})
    count, vectors = draws_of_torch(encoder)
    assert count > 0
    vectors.sum().backward()
    found = {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad()
    encoder.transformer.activation_checkpointing_disable()
    torch.manual_seed(6)
    hidden = encoder.transformer(input_ids=IDS, attention_mask=MASK.long()).last_hidden_state
    ((hidden * MASK[..., None]).sum(1) / MASK.sum(1, keepdim=True)).sum().backward()  # type: ignore[no-untyped-call]
    expected = {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}
    torch.testing.assert_close(found, expected)
