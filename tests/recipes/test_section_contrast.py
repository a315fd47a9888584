"""Batches of sections, and supervised contrast of them, from examples to vectors that can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from graphdoc.graphs.layout import Packing
from graphdoc.losses import ONE_PROCESS, SupervisedContrastive
from graphdoc.modeling import DocumentModel
from graphdoc.recipes.classify import section_batch, token_counts
from graphdoc.sampling import DocumentSections
from graphdoc.training.objectives import SectionContrast
from graphdoc.training.step import CachedStep

ModelFactory = Callable[..., DocumentModel]


@pytest.fixture
def examples(training_examples: Any) -> Any:
    return training_examples(6)


@pytest.fixture
def model(tiny_model: ModelFactory) -> DocumentModel:
    """CoLDE in small, with tables that show."""
    settings = {"projection_size": None, "graph_layers": 0, "section_lstm_size": 10, "section_projection_size": 8}
    model = tiny_model("bert", readout="sections", structural_embeddings=True, **settings)
    for table in model.structural_embeddings.parameters():
        torch.nn.init.normal_(table)
    return model


def test_a_batch_holds_every_passage_in_its_section(examples: Any) -> None:
    sections = DocumentSections(3, section_positions="shuffled", seed=4)
    targets = {"group": torch.arange(6)}
    batch = section_batch(examples, sections, 2, targets, graph="section")
    assert batch.ids == tuple(example.id for example in examples)
    assert batch.targets is targets
    assert batch.tokens == sum(len(ids) for example in examples for ids in example.token_ids)
    first = 0
    for number, example in enumerate(examples):
        split = sections.draw(example.id, 2, example.sections)
        rows = slice(first, first + len(split.order))
        assert batch.graphs.places[rows, 0].tolist() == split.section_ids.tolist()
        assert batch.graphs.places[rows, 1].tolist() == split.chunk_ids.tolist()
        assert batch.graphs.rows.document_of[rows].tolist() == [number] * len(split.order)
        assert (
            batch.graphs.section_of[batch.graphs.rows.passages][rows].tolist()
            == example.sections[split.order].tolist()
        )
        for place, passage in enumerate(split.order.tolist()):
            assert batch.graphs.token_ids[first + place] is example.token_ids[passage]
        first += len(split.order)
    assert first == len(batch.graphs.token_ids)


def test_sections_are_cut_after_so_many_tokens(examples: Any) -> None:
    sections, most = DocumentSections(2), 15
    batch = section_batch(examples, sections, 0, {}, graph="section", most_tokens=most)
    expected = []
    for example in examples:
        split = sections.split(example.sections).limited(token_counts(example), most)
        expected += [example.token_ids[row] for row in split.order.tolist()]
    assert list(batch.graphs.token_ids) == expected
    assert 0 < len(expected) < sum(len(example.token_ids) for example in examples)
    vectors = [np.arange(len(example.sections) * 2, dtype=np.float32).reshape(-1, 2) for example in examples]
    frozen = section_batch(examples, sections, 0, {}, passage_vectors=vectors, most_tokens=most).graphs
    assert frozen.passage_vectors is not None
    assert len(frozen.passage_vectors) == sum(frozen.passage_counts) == len(expected)


@torch.no_grad()
def test_one_section_is_the_document_unsplit(examples: Any, model: DocumentModel) -> None:
    batch = section_batch(examples, DocumentSections(1), 0, {}).graphs
    whole = batch.split_into(None)
    assert torch.equal(model(batch).documents, model(whole).documents)
    assert len(model(batch).sections) == 6
    split = section_batch(examples, DocumentSections(2), 0, {}).graphs
    assert float((model(split).documents - model(whole).documents).abs().max()) > 1e-2


@torch.no_grad()
def test_what_shuffled_sections_change(examples: Any, model: DocumentModel) -> None:
    """CoLDE, section 4.4.3: natural positions change nothing."""

    class Moved(DocumentSections):
        """Sections in the opposite order."""

        def draw(self, id: str, epoch: int, own_sections: Any) -> Any:
            split = self.split(own_sections)
            return split.moved(np.arange(len(split))[::-1], self.section_positions)

    def encoded(sections: DocumentSections) -> torch.Tensor:
        return model(section_batch(examples, sections, 0, {}).graphs).documents

    expected = encoded(DocumentSections(3, "length"))
    assert float((encoded(Moved(3, "length")) - expected).abs().max()) < 1e-5
    assert float((encoded(Moved(3, "length", "shuffled")) - expected).abs().max()) > 1e-2
    # Without the tables and with two sections, chunkwise attention forms the same pairs either way.
    for table in model.structural_embeddings.parameters():
        table.zero_()
    expected = encoded(DocumentSections(2, "length"))
    assert float((encoded(Moved(2, "length", "shuffled")) - expected).abs().max()) < 1e-5


@torch.no_grad()
def test_vectors_made_before_go_along(examples: Any, tiny_model: ModelFactory) -> None:
    model = tiny_model("bert", readout="sections", section_lstm_size=10, section_projection_size=8)
    sections = DocumentSections(3, section_positions="shuffled")
    expected = section_batch(examples, sections, 1, {}, graph="section")
    vectors = []
    for example in examples:
        alone = section_batch([example], DocumentSections(1), 0, {})
        vectors.append(model.encode_passages(alone.graphs).numpy())
    found = section_batch(examples, sections, 1, {}, graph="section", passage_vectors=vectors)
    assert found.tokens == 0
    assert float((model(found.graphs).sections - model(expected.graphs).sections).abs().max()) < 1e-5


SIZES = {"projection_size": None, "graph_layers": 0, "section_lstm_size": 10, "section_projection_size": 8}


@dataclass(frozen=True)
class Example:
    """A document whose words tell its group."""

    id: str
    group: int
    sections: npt.NDArray[np.int64]
    token_ids: tuple[npt.NDArray[np.int32], ...]


def examples_of_groups(groups: list[int], seed: int) -> list[Example]:
    draw = np.random.default_rng(seed)
    examples = []
    for number, group in enumerate(groups):
        passages = int(draw.integers(1, 6))
        words = np.arange(10 + 8 * group, 26 + 8 * group)
        token_ids = tuple(np.array([0, *draw.choice(words, 12), 2], np.int32) for _ in range(passages))
        examples.append(Example(f"{seed}-{number}", group, np.zeros(passages, np.int64), token_ids))
    return examples


def test_sections_have_the_groups_of_their_documents(tiny_model: ModelFactory, training_examples: Any) -> None:
    examples = training_examples(6)
    targets = torch.tensor([7, 3, 7, 3, 3, 9])
    for count in (1, 3):
        sections = DocumentSections(count, "length")
        batch = section_batch(examples, sections, 0, {"group": targets})
        model = tiny_model("bert", readout="sections", **SIZES)
        objective = SectionContrast(SupervisedContrastive(0.5))
        output = model(batch.graphs)
        rows = objective.rows(output)
        labels = [int(target) for example, target in zip(examples, targets, strict=True)
                  for _ in range(len(sections.split(example.sections)))]  # fmt: skip
        assert torch.equal(batch.graphs.sections.document_of, output.document_of_section)
        expected = SupervisedContrastive(0.5)(output.sections, torch.tensor(labels)).loss
        torch.testing.assert_close(objective.loss(rows, batch, ONE_PROCESS).loss, expected)
    plain = tiny_model("bert", readout="mean", graph_layers=0)(batch.graphs)
    expected = SupervisedContrastive(0.5)(plain.documents, targets).loss
    torch.testing.assert_close(objective.loss(objective.rows(plain), batch, ONE_PROCESS).loss, expected)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        *(pytest.param(one, marks=pytest.mark.slow) for one in ({"graph_layers": 1}, {"section_aggregation": "mean"})),
    ],
)
def test_it_learns_to_tell_groups_apart(tiny_model: ModelFactory, settings: dict[str, Any]) -> None:
    model = tiny_model("bert", readout="sections", structural_embeddings=True, **{**SIZES, **settings}).train()
    groups = [0, 1, 2, 3] * 5
    examples = examples_of_groups(groups, 1)
    step = CachedStep(model, SectionContrast(), packing=Packing(400))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for epoch in range(40):
        optimizer.zero_grad()
        batch = section_batch(examples, DocumentSections(2), epoch, {"group": torch.tensor(groups)})
        losses.append(float(step(batch).loss))
        optimizer.step()
    assert losses[-1] < losses[0] - 0.5

    # Other documents, not split.
    batch = section_batch(examples_of_groups(groups, 2), DocumentSections(1), 0, {})
    with torch.no_grad():
        vectors = model.eval()(batch.graphs).documents
    scores = vectors @ vectors.T
    same = torch.tensor(groups)[:, None] == torch.tensor(groups)
    others = ~torch.eye(len(groups), dtype=torch.bool)
    assert float(scores[same & others].mean()) > float(scores[~same].mean()) + 0.3
