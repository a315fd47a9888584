from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from training_fixtures import ExampleFactory

from graphdoc.recipes.sub_documents import SubDocumentCollator, held_out_parts
from graphdoc.sampling.batches import Rows


@given(st.integers(2, 300), st.integers(2, 80))
def test_all_documents_held_out_are_measured_in_batches_of_nearly_one_size(documents: int, batch_size: int) -> None:
    rows = np.arange(documents)[::-1]
    batches = held_out_parts(rows, batch_size)

    assert [row for batch in batches for row in batch] == rows.tolist()
    sizes = {len(batch) for batch in batches}
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 2
    # Losses are those of training batches as far as the number of documents allows.
    assert max(sizes) <= 1.5 * batch_size + 1
    assert documents < batch_size or min(sizes) >= batch_size / 1.5


def test_nothing_held_out_makes_no_batch() -> None:
    assert held_out_parts(np.empty(0, np.int64), 4) == []


def test_documents_are_split_as_one_says(training_examples: ExampleFactory) -> None:
    examples = training_examples(4)
    batch = SubDocumentCollator(_Ends(), None)([(one, 0, row) for row, one in enumerate(examples)])
    # All but the last passage look for all but the first.
    counts = [len(one.sections) - 1 for one in examples]
    assert list(batch.graphs.passage_counts) == counts + counts


class _Ends:
    """Splits documents into views that overlap."""

    has_queries = False

    def draw(self, id: str, epoch: int, passages: int) -> tuple[Rows, Rows]:
        everything = np.arange(passages)
        return everything[:-1], everything[1:]
