from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.packing import Packing
from graphdoc.modeling import DocumentModel
from graphdoc.modeling.passage_encoder import StructuralEmbeddings

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
@pytest.mark.parametrize("split", [False, True])
def test_the_sum_is_what_the_transformer_is_given(encoder_name: str, split: bool, tiny_model, documents) -> None:
    """CoLDE, section 3.1: every token's input embedding is T + S + C."""
    model = drawn(tiny_model(encoder_name, structural_embeddings=True, structural_sections=3, structural_chunks=5))
    sections, chunks = model.structural_embeddings.sections, model.structural_embeddings.chunks
    batch = GraphBatch.from_documents(documents, "full", split=split)
    by_hand = []
    for document, layout in zip(documents, LAYOUTS, strict=True):
        seen: list[int] = []
        for row, ids in enumerate(document.token_ids):
            section = list(dict.fromkeys(layout)).index(layout[row]) if split else 0
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
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_model_starts_at_its_pretrained_encoder(encoder_name: str, pooling: str, tiny_model, documents) -> None:
    plain = tiny_model(encoder_name, pooling=pooling)
    model = tiny_model(encoder_name, pooling=pooling, structural_embeddings=True)
    model.load_state_dict(plain.state_dict(), strict=False)
    batch = GraphBatch.from_documents(documents, "full", split=True)
    assert torch.equal(model.encode_passages(batch), plain.encode_passages(batch))
    assert float((drawn(model).encode_passages(batch) - plain.encode_passages(batch)).abs().max()) > 0.1


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_neighbours_and_padding_have_no_influence(encoder_name: str, pooling: str, tiny_model, documents) -> None:
    model = drawn(tiny_model(encoder_name, pooling=pooling, structural_embeddings=True))
    for split in (False, True):
        alone = [model(GraphBatch.from_documents([one], "section", split=split)).documents for one in documents]
        together = model(GraphBatch.from_documents(documents[::-1], "section", split=split), packing=Packing(150))
        assert float((together.documents.flip(0) - torch.cat(alone)).abs().max()) < 1e-5


@torch.no_grad()
def test_half_precision_of_the_encoder_takes_tables_in_full(encoder_name: str, tiny_model, documents) -> None:
    model = drawn(tiny_model(encoder_name, structural_embeddings=True))
    batch = GraphBatch.from_documents(documents, "full")
    expected = model.encode_passages(batch)
    model.passage_encoder.to(torch.bfloat16)
    actual = model.encode_passages(batch)
    assert actual.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(actual, expected).min() > 0.95


@torch.no_grad()
def test_tables_are_saved_in_full_precision(encoder_name: str, tmp_path: Path, tiny_model, documents) -> None:
    model = drawn(tiny_model(encoder_name, structural_embeddings=True, structural_chunks=4))
    batch = GraphBatch.from_documents(documents, "full", split=True)
    model.save_pretrained(tmp_path)
    loaded, report = DocumentModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(loaded(batch).documents, model(batch).documents)
    half = DocumentModel.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert half.structural_embeddings.sections.dtype == torch.float32


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


def test_mini_batches_carry_the_structure_only_where_it_is_used(tiny_model, documents) -> None:
    batch = GraphBatch.from_documents(documents, "full", split=True)
    assert all(one.structure is None for one in tiny_model().mini_batches(batch, Packing(200)))
    mini_batches = list(tiny_model(structural_embeddings=True).mini_batches(batch, Packing(200)))
    assert len(mini_batches) > 2
    for mini_batch in mini_batches:
        assert torch.equal(mini_batch.structure, torch.from_numpy(batch.places)[mini_batch.passage_order])
        assert mini_batch.to("meta").structure.device.type == "meta"
