"""Supervised contrastive training of sections, from examples to vectors that can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from graphdoc.graphs.packing import Packing
from graphdoc.losses import ONE_PROCESS, SupervisedContrastive
from graphdoc.modeling import DocumentModel
from graphdoc.recipes.classify import section_batch
from graphdoc.sampling import DocumentSections
from graphdoc.training.objectives import SectionContrast
from graphdoc.training.step import CachedStep

ModelFactory = Callable[..., DocumentModel]
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
