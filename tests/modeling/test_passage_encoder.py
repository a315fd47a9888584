from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig

from graphdoc.errors import ModelError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.layout import Packing
from graphdoc.inference.precision import computed_in
from graphdoc.modeling import DocumentModel
from graphdoc.modeling.passage_encoder import (
    STEPS,
    PassageEncoder,
    QuickDropout,
    StructuralEmbeddings,
    cls_pooling,
    dropout,
    last_pooling,
)
from graphdoc.registry import POOLINGS, load


def by_hand(encoder: PassageEncoder, ids: tuple[int, ...]) -> torch.Tensor:
    """One passage without padding through the bare transformer."""
    hidden = encoder.transformer(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return {cls_pooling: hidden[0], last_pooling: hidden[-1]}.get(encoder.pooling, hidden.mean(0))


def pooled(encoder: PassageEncoder, ids: Tensor, mask: Tensor) -> Tensor:
    return encoder.pool(encoder.tokens(ids, mask), mask)


@torch.no_grad()
def test_padding_has_no_influence(encoder_name: str, tiny_encoder_config, random_document) -> None:
    config = tiny_encoder_config(encoder_name)
    encoder = PassageEncoder(config, "mean").eval()
    token_ids = random_document([0] * 12).token_ids
    width = max(map(len, token_ids)) + 7
    input_ids = torch.full((len(token_ids), width), config.pad_token_id)
    mask = torch.zeros_like(input_ids)
    for row, ids in enumerate(token_ids):
        input_ids[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
    actual = pooled(encoder, input_ids, mask)
    expected = torch.stack([by_hand(encoder, ids) for ids in token_ids])
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    # What stands in the padding does not matter either, where positions are not counted from the padding token.
    if "roberta" not in encoder_name:
        noise = torch.where(mask == 1, input_ids, torch.randint(4, 100, input_ids.shape))
        torch.testing.assert_close(pooled(encoder, noise, mask), expected, atol=1e-5, rtol=1e-5)
    assert float((actual[0] - actual[1]).abs().max()) > 0.1


@torch.no_grad()
@pytest.mark.parametrize("pooling", POOLINGS)
def test_mini_batches_encode_every_passage_as_if_alone(pooling: str, tiny_model, random_document) -> None:
    model = tiny_model("bert", pooling=pooling)
    batch = GraphBatch.from_documents([random_document([0] * 15, seed=seed) for seed in range(3)], "full")
    done: list[int] = []
    actual = model.encode_passages(batch, Packing(200), progress=done.append)
    expected = torch.stack([by_hand(model.passage_encoder, ids) for ids in batch.token_ids])
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    assert sum(done) == 45
    assert len(done) > 5
    for packing in (Packing(1), Packing(10_000), None):
        torch.testing.assert_close(model.encode_passages(batch, packing), expected, atol=1e-5, rtol=1e-5)


def test_building_leaves_a_shared_configuration_alone(encoder_name: str, tiny_encoder_config) -> None:
    config = tiny_encoder_config(encoder_name)
    before = copy.deepcopy(config.__dict__)
    encoder = PassageEncoder(config, "cls")
    encoder.transformer.set_attn_implementation("eager")
    encoder.transformer.config.hidden_size = 1
    assert config.__dict__ == before
    assert PassageEncoder(config, "cls").transformer.config._attn_implementation == "sdpa"


def test_a_transformer_that_mixes_types_is_refused_in_one_line() -> None:
    """DeBERTa casts parts of its attention back to fp32 by itself, and then multiplies both types."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = AutoConfig.for_model("deberta", vocab_size=50, relative_attention=True, pos_att_type=["c2p"], **sizes)
    encoder = PassageEncoder(config, "mean").eval()
    ids = torch.arange(5, 12).unsqueeze(0)
    with computed_in("float32", encoder, "it"):
        assert pooled(encoder, ids, torch.ones_like(ids)).shape == (1, 32)
    with (
        pytest.raises(ModelError, match="bfloat16"),
        computed_in("bfloat16", encoder, "it"),
    ):
        pooled(encoder, ids, torch.ones_like(ids))
    with pytest.raises(RuntimeError, match="a fault"), computed_in("bfloat16", encoder, "it"):
        raise RuntimeError("a fault of another kind")


@pytest.mark.parametrize("name", POOLINGS)
def test_every_pooling_by_its_definition(name: str) -> None:
    hidden = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5, [1] + [0] * 8])
    found = load(POOLINGS[name])(hidden, mask)
    tokens = hidden.double().numpy()
    expected = [
        {"cls": row[0], "mean": row[:count].mean(axis=0), "last": row[count - 1]}[name]
        for row, count in zip(tokens, mask.sum(1).tolist(), strict=True)
    ]
    np.testing.assert_allclose(found.double().numpy(), expected, atol=1e-6)
    assert load(POOLINGS[name])(hidden.bfloat16(), mask).dtype == torch.float32


LAYOUTS: list[list[int]] = [[0], [0, 0, 1, 1, 1, 2], [5, 5, 2, 9, 2, 2], [0] * 11]


@pytest.fixture
def documents(random_document):
    return [random_document(layout, seed=seed) for seed, layout in enumerate(LAYOUTS)]


def drawn(model: DocumentModel) -> DocumentModel:
    """Fill the tables, which start at zero, so that they show."""
    with torch.no_grad():
        for table in model.structural_embeddings.parameters():
            table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(7)))
    return model


def test_tables_are_added_and_their_last_rows_stand_for_all_beyond() -> None:
    tables = StructuralEmbeddings(2, 3, 4)
    assert not any(bool(table.any()) for table in tables.parameters())
    torch.nn.init.normal_(tables.sections)
    torch.nn.init.normal_(tables.chunks)
    found = tables(torch.tensor([[0, 0], [1, 2], [1, 3], [7, 1], [0, 99]]))
    section, chunk = tables.sections, tables.chunks
    expected = [section[0] + chunk[0], section[1] + chunk[2], section[1] + chunk[2], section[1] + chunk[1]]
    torch.testing.assert_close(found, torch.stack([*expected, section[0] + chunk[2]]))


@torch.no_grad()
def test_the_sum_is_what_the_transformer_is_given(encoder_name: str, tiny_model, documents) -> None:
    """CoLDE, section 3.1: every token's input embedding is T + S + C."""
    model = drawn(tiny_model(encoder_name, structural_embeddings=True, structural_sections=3, structural_chunks=5))
    sections, chunks = model.structural_embeddings.sections, model.structural_embeddings.chunks
    batch = GraphBatch.from_documents(documents, "full", split=True)
    by_hand = []
    for document, layout in zip(documents, LAYOUTS, strict=True):
        seen: list[int] = []
        for row, ids in enumerate(document.token_ids):
            section = list(dict.fromkeys(layout)).index(layout[row])
            chunk = seen.count(section)
            seen.append(section)
            words = model.passage_encoder.transformer.get_input_embeddings().weight[list(ids)]
            embeddings = words + sections[min(section, 2)] + chunks[min(chunk, 4)]
            hidden = model.passage_encoder.transformer(inputs_embeds=embeddings[None]).last_hidden_state
            by_hand.append(hidden[0, 0])
    for budget in (100, 4000):
        torch.testing.assert_close(
            model.encode_passages(batch, Packing(budget)), torch.stack(by_hand), atol=1e-5, rtol=1e-5
        )


@torch.no_grad()
def test_a_model_starts_at_its_pretrained_encoder(encoder_name: str, tiny_model, documents) -> None:
    plain = tiny_model(encoder_name)
    model = tiny_model(encoder_name, structural_embeddings=True)
    model.load_state_dict(plain.state_dict(), strict=False)
    batch = GraphBatch.from_documents(documents, "full", split=True)
    assert torch.equal(model.encode_passages(batch), plain.encode_passages(batch))
    assert float((drawn(model).encode_passages(batch) - plain.encode_passages(batch)).abs().max()) > 0.1


def test_only_tables_that_are_used_get_gradients(encoder_name: str, tiny_model, documents) -> None:
    model = drawn(tiny_model(encoder_name, structural_embeddings=True, structural_chunks=20)).train()
    model(GraphBatch.from_documents(documents, "full", split=True)).documents.square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    # Three sections at most; eleven chunks, in the last document.
    for table, used in ((model.structural_embeddings.sections, 3), (model.structural_embeddings.chunks, 11)):
        assert bool(table.grad[:used].abs().amax(1).gt(0).all())
        assert not bool(table.grad[used:].any())


def test_what_is_trained_below_passage_vectors(tiny_model) -> None:
    model = tiny_model(structural_embeddings=True)
    assert model.trains_passage_vectors
    model.passage_encoder.requires_grad_(False)
    assert model.trains_passage_vectors
    model.structural_embeddings.requires_grad_(False)
    assert not model.trains_passage_vectors
    assert not tiny_model().requires_grad_(False).trains_passage_vectors


BERT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
MODERN_BERT = {"attention_dropout": 0.2, "embedding_dropout": 0.2, "mlp_dropout": 0.2}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


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
        deviation = 5 * (share**2 / values.numel()) ** 0.5 + 1e-3
        assert float(both) == pytest.approx(share**2, abs=deviation)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_pass_without_gradient_draws_the_same_to_the_last_bit(dtype: torch.dtype) -> None:
    for values in (torch.randn(0), torch.randn(5), torch.randn(2, 3, 4, 5), torch.randn(6, 7, 2)[..., 0]):
        values = values.to(dtype)
        before, results = values.clone(), []
        for gradient in (False, True):
            torch.manual_seed(4)
            with torch.set_grad_enabled(gradient):
                results.append((dropout(values, 0.3), torch.rand(1)))
        assert all(map(torch.equal, *results)) and torch.equal(values, before), "what comes in stays as it is"


def test_gradient_is_that_of_the_mask() -> None:
    for share in (0.0, 1e-9, 1.0):
        assert torch.equal(dropout(torch.ones(30), share), torch.full((30,), float(share < 0.5)))
    values = torch.randn(50, 60, requires_grad=True)
    dropped = dropout(values, 0.25)
    dropped.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
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


def draws_of_torch(encoder: PassageEncoder, gradient: bool) -> tuple[int, Tensor]:
    """How often torch drew masks element by element, and the passage vectors."""
    ids = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    torch.manual_seed(6)
    with profile(activities=[ProfilerActivity.CPU]) as profiled, torch.set_grad_enabled(gradient):
        vectors = pooled(encoder, ids, mask)
    return sum(event.count for event in profiled.key_averages() if "bernoulli" in event.key), vectors


@pytest.mark.parametrize("gradient", [True, False])
def test_every_transformer_in_training(
    encoder_name: str, tiny_encoder_config: Callable[..., Any], gradient: bool
) -> None:
    settings = MODERN_BERT if encoder_name == "modernbert" else BERT
    encoder = PassageEncoder(tiny_encoder_config(encoder_name, **settings), "mean").train()
    count, vectors = draws_of_torch(encoder, gradient)
    assert count == 0
    assert not torch.allclose(draws_of_torch(encoder.eval(), gradient)[1], vectors), "there is dropout"


def test_not_where_parts_are_computed_twice_outside(tiny_encoder_config: Callable[..., Any]) -> None:
    """With gradient checkpointing the second computation has to draw the same masks as the first."""
    encoder = PassageEncoder(tiny_encoder_config("roberta", **BERT), "mean").train()
    encoder.transformer.activation_checkpointing_enable({"use_reentrant": False})
    count, vectors = draws_of_torch(encoder, True)
    assert count > 0
    vectors.sum().backward()
    found = {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad()
    encoder.transformer.activation_checkpointing_disable()
    torch.manual_seed(6)
    ids = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    hidden = encoder.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
    ((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).sum().backward()  # type: ignore[no-untyped-call]
    assert found
    for name, parameter in encoder.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, msg=name)


def test_tensors_that_know_only_their_shape_are_left_to_torch() -> None:
    with FakeTensorMode() as mode, QuickDropout():
        fake = mode.from_tensor(torch.ones(2, 1, 5, 4))
        assert functional.dropout(fake, 0.5).shape == fake.shape
        assert functional.scaled_dot_product_attention(fake, fake, fake, dropout_p=0.5).shape == fake.shape
