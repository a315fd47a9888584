"""Does a model stand sections in another order? Figure 8 of the CoLDE paper, on citation pairs of papers.

Every test document is measured as it is and with its sections shuffled, by models that were trained on sections in
their natural order and on shuffled ones. A model that is told the places that sections had (`natural` positions) gives
the same vectors whatever the order, as tests prove; what is measured here is the harder case, in which the order of
the text itself is another one and nothing says so.

    python benchmarks/section_shuffling.py [--config FILE] [--work FOLDER] [key=value ...]
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from studies import UNTRAINED, Study, error_bars, numbers, run_study, spread

from graphdoc.evaluation import PairEvaluator
from graphdoc.segmentation.spans import SegmentedDocument


def shuffled(segmented: SegmentedDocument, seed: int) -> SegmentedDocument:
    """A document with its sections in another order, and the passages that it has."""
    document = segmented.document
    order = np.random.default_rng([seed, *document.id.encode()]).permutation(len(document.sections))
    place = np.argsort(order)
    rows = sorted(range(len(segmented.passages)), key=lambda row: place[segmented.passages[row].section])
    passages = [segmented.passages[row] for row in rows]
    vectors = segmented.passage_vectors
    return replace(
        segmented,
        document=replace(document, sections=tuple(document.sections[section] for section in order.tolist())),
        passages=tuple(replace(passage, section=int(place[passage.section])) for passage in passages),
        token_ids=tuple(segmented.token_ids[row] for row in rows),
        passage_vectors=None if vectors is None else vectors[rows],
    )


def shuffled_scores(study: Study) -> list[str]:
    """The rows of the second table: what shuffling changes."""
    lines = ["\nWith the sections of all test documents shuffled:\n"]
    lines += ["| | AUC | accuracy | AUC less than in order | mean change of a cosine |", "|---|---|---|---|---|"]
    for row in (UNTRAINED, *study.settings.rows):
        found = []
        for seed in range(1 if row == UNTRAINED else study.settings.seeds):
            encoder = study.untrained() if row == UNTRAINED else study.trained(row, seed)
            plain = study.ready(encoder)
            other = plain.prepared(encoder) if plain is study.comparison else plain
            mixed = with_shuffled(other, seed)
            before, after = plain.similarities(encoder), mixed.similarities(encoder)
            first, second = (numbers(plain.score(one)) for one in (before, after))
            change = float(np.abs(before - after)[: len(plain.pairs)].mean())
            found.append((second["auc"], second["accuracy"], first["auc"] - second["auc"], change))
        lines.append(f"| {row} | {' | '.join(spread(values) for values in zip(*found, strict=True))} |")
    return lines


def with_shuffled(comparison: PairEvaluator, seed: int) -> PairEvaluator:
    """The comparison with the sections of its documents shuffled."""
    result = copy.copy(comparison)
    result.documents = [shuffled(one, seed) for one in comparison.documents if isinstance(one, SegmentedDocument)]
    return result


def plot(table: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    error_bars(table, "auc", "Sections in their order: AUC of test pairs, every point a seed", path)


if __name__ == "__main__":
    run_study("section_shuffling", __doc__, plot, shuffled_scores)
