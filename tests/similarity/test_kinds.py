from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typed import Documents, Encoders, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.inference.learned_subtopics import subtopic_finder
from graphdoc.losses import InfoNCELoss
from graphdoc.losses.base import ONE_PROCESS
from graphdoc.recipes.compare import objective_of
from graphdoc.registry import SIMILARITIES
from graphdoc.settings.finetuning import ComparisonSettings
from graphdoc.similarity import EncodedDocument
from graphdoc.similarity.encoded_document import pair_subtopics
from graphdoc.similarity.kinds import Cosine, maxsim, maxsim_of_pairs, packed, similarity_of
from graphdoc.training.objectives import PairMaxSimObjective

MEAN = {"readout": "mean", "graph_layers": 0, "projection_size": None, "pooling": "mean"}


def by_hand(a: np.ndarray, b: np.ndarray) -> float:
    """MaxSim as a loop over passages."""

    def cosine(one: np.ndarray, other: np.ndarray) -> float:
        return float(one @ other / np.sqrt((one @ one) * (other @ other)))

    forward = [max(cosine(one, other) for other in b) for one in a]
    reverse = [max(cosine(one, other) for one in a) for other in b]
    return (sum(forward) / len(forward) + sum(reverse) / len(reverse)) / 2


def drawn(counts: list[int], seed: int, width: int = 5) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.normal(size=(count, width)) for count in counts]


counts = st.lists(st.integers(1, 6), min_size=1, max_size=7)


@given(counts, counts, st.integers(0, 10_000), st.sampled_from([None, 1, 3, 100]))
def test_scores_are_those_of_a_loop(first: list[int], second: list[int], seed: int, block: int | None) -> None:
    a, b = drawn(first, seed), drawn(second, seed + 1)
    expected = np.array([[by_hand(one, other) for other in b] for one in a])
    found = maxsim(
        torch.from_numpy(np.concatenate(a)), torch.tensor(first),
        torch.from_numpy(np.concatenate(b)), torch.tensor(second), block=block,
    )  # fmt: skip
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    pairs = np.array([(i, len(a) + j) for i in range(len(a)) for j in range(len(b))])
    np.testing.assert_allclose(maxsim_of_pairs([*a, *b], pairs), expected.ravel(), atol=1e-12)


def test_half_precision_and_gradients() -> None:
    (a,), b = drawn([4], 0, 32), drawn([3, 5], 1, 32)
    stored = [torch.from_numpy(one).to(torch.bfloat16) for one in b]
    found = maxsim(torch.from_numpy(a), torch.tensor([4]), torch.cat(stored), torch.tensor([3, 5]))
    np.testing.assert_allclose(found.numpy()[0], [by_hand(a, one.double().numpy()) for one in stored], atol=1e-6)
    one, other = (torch.randn(count, 4, requires_grad=True, dtype=torch.double) for count in (3, 2))
    maxsim(*packed([one]), *packed([other]), block=None).backward()  # type: ignore[no-untyped-call]
    assert one.grad is not None and bool(torch.isfinite(one.grad).all()) and float(one.grad.abs().sum()) > 0


@pytest.mark.parametrize(
    ("readout", "layers", "lexical"), [("mean", 2, False), ("sections", 0, True), ("attention", 2, True)]
)
def test_contributions_add_up_to_the_score(
    tiny_encoder: Encoders, structured: Documents, readout: str, layers: int, lexical: bool
) -> None:
    encoder = tiny_encoder("bert", readout=readout, graph_layers=layers, similarity="maxsim")
    encoder.fit(structured, lexical={"least_documents": 1} if lexical else False)
    passages = encoder.encode(structured, level="passage")
    for a, b in ((0, 1), (2, 1), (1, 1)):
        comparison = encoder.compare(structured[a], structured[b])
        assert comparison.document == pytest.approx(by_hand(passages[a], passages[b]), abs=1e-6)
        assert comparison.passage_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)
        assert comparison.section_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)
        assert (comparison.passage_contributions != 0).sum() <= sum(comparison.passages.shape)
        if not lexical:
            assert comparison.lexical is None
            continue
        numbers = encoder.model.lexical.settings.size  # type: ignore[union-attr]
        left, right = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (passages[a], passages[b]))
        products = left @ right.T
        words = left[:, -numbers:] @ right[:, -numbers:].T
        rows, columns = np.arange(len(left)), np.arange(len(right))
        best = words[rows, products.argmax(1)].mean(), words[products.argmax(0), columns].mean()
        assert comparison.lexical == pytest.approx(sum(best) / 2, abs=1e-6)
    several = encoder.compare_all(structured)
    expected = [[by_hand(one, other) for other in passages] for one in passages]
    np.testing.assert_allclose(several.document_scores, expected, atol=1e-6)


class First(Cosine):
    """A kind that the package does not have: the cosine of the first passages alone."""

    meaning = "Cosine of the first passages."

    def compared_vectors(self, document: EncodedDocument) -> np.ndarray:
        return np.asarray(document.passages[:1] / np.linalg.norm(document.passages[0]), np.float64)

    def weights(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.ones((len(a), len(b)))

    def contributions(self, a: EncodedDocument, b: EncodedDocument) -> np.ndarray:
        found = np.zeros((len(a.passages), len(b.passages)))
        found[:1, :1] = super().contributions(a, b)
        return found

    def scores(self, a: Sequence[Any], b: Sequence[Any]) -> np.ndarray:
        return (
            np.concatenate([self.compared_vectors(one) for one in a])
            @ np.concatenate([self.compared_vectors(one) for one in b]).T
        )


def test_a_kind_is_one_class_and_one_line(tiny_encoder: Encoders, structured: Documents, monkeypatch: Patch) -> None:
    monkeypatch.setitem(SIMILARITIES, "first", f"{__name__}:First")
    encoder = tiny_encoder("bert", similarity="first", **MEAN)
    comparison, several = encoder.compare(*structured[:2]), encoder.compare_all(structured)
    assert (
        comparison.document == pytest.approx(comparison.passages[0, 0]) == pytest.approx(several.document_scores[0, 1])
    )
    assert comparison.section_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)
    np.testing.assert_allclose(several.sections_of(0, 1), comparison.sections, atol=1e-6)
    assert First.meaning in comparison.to_html()


def test_vectors_of_passages_are_compared(tiny_encoder: Encoders, structured: Documents) -> None:
    encoder = tiny_encoder("bert", similarity="maxsim", **MEAN)
    passages = encoder.encode(structured, level="passage")
    found = encoder.similarity(passages[:2], passages)
    expected = [[by_hand(one, other) for other in passages] for one in passages[:2]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    tensors = encoder.encode(structured, level="passage", convert_to_tensor=True)
    assert isinstance(encoder.similarity(tensors, tensors), torch.Tensor)
    for wrong in (encoder.encode(structured), passages[0], [], ["rice"]):
        with pytest.raises(SettingsError, match="level='passage'"):
            encoder.similarity(wrong, passages)
    assert similarity_of(encoder.model.config.similarity).vector_similarity == "cosine"


def test_pairs_are_trained_on_passage_by_passage(tiny_encoder: Encoders) -> None:
    settings = ComparisonSettings(
        corpus={"source": "letters.jsonl"}, groups={"by": "pairs", "file": "pairs.tsv"}, loss={"kind": "cosine"},
        sections={"number": 1},
    )  # fmt: skip
    model = tiny_encoder("bert", similarity="maxsim", **MEAN).model
    objective = objective_of(settings, model)
    assert isinstance(objective, PairMaxSimObjective)
    contrast = settings.replace(loss={"kind": "contrastive"})
    with pytest.raises(SettingsError, match=r"loss\.kind=cosine"):
        objective_of(contrast, model)
    with pytest.raises(SettingsError, match="InfoNCELoss"):
        objective_of(settings, model, InfoNCELoss())
    a, b, c = (torch.from_numpy(one) for one in drawn([2, 3, 1], 0))
    rows = torch.cat([a, b, c]).requires_grad_()
    batch = SimpleNamespace(
        graphs=SimpleNamespace(passage_counts=(2, 3, 1)),
        roles={"first": torch.tensor([0, 0]), "second": torch.tensor([1, 2])},
        targets={"label": torch.tensor([1, 0])},
    )
    found = objective.loss(rows, batch, ONE_PROCESS)  # type: ignore[arg-type]
    similar, other = by_hand(a.numpy(), b.numpy()), by_hand(a.numpy(), c.numpy())
    assert found.loss.item() == pytest.approx((1 - similar + max(0.0, other)) / 2, abs=1e-6)
    found.loss.backward()  # type: ignore[no-untyped-call]
    assert rows.grad is not None and bool((rows.grad.abs().sum(dim=1) > 0).any())


def test_a_section_that_attention_gives_nothing_has_a_vector(tiny_encoder: Encoders, structured: Documents) -> None:
    encoder = tiny_encoder("bert", readout="attention", graph_layers=0)
    with torch.no_grad():
        encoder.model.readout.score.weight.mul_(1e6)
    encoded = encoder.encode_levels(structured[0])
    assert sorted(encoded.weights)[-2:] == [0, 1]
    means = [encoded.passages[encoded.section_rows == row].mean(0) for row in range(len(encoded.section_numbers))]
    means[encoded.section_rows[encoded.weights.argmax()]] = encoded.passages[encoded.weights.argmax()]
    for found in (encoded.sections, encoder.encode(structured[0], level="section")):
        np.testing.assert_allclose(found, means, atol=1e-6)


RICE = " ".join(["Rice is steamed for koji.", "Koji grows on steamed rice.", "The rice cools.", "Koji needs air."] * 3)
TIDE = " ".join(
    ["The tide turns.", "Tide gates close.", "A barrier holds the tide.", "Koji and rice travel by sea."] * 3
)


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Encoders) -> DocumentEncoder:
    return tiny_encoder("roberta", graph_layers=0, readout="mean", max_passages=None)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [Document.from_text(RICE, id="b"), Document.from_text(TIDE, id="a")]


@pytest.mark.parametrize("by", ["words", "vectors"])
def test_the_order_of_documents_does_not_matter(encoder: DocumentEncoder, documents: Documents, by: str) -> None:
    forth = encoder.compare(*documents, subtopics=by).subtopics
    back = encoder.compare(*documents[::-1], subtopics=by).subtopics
    assert forth is not None and back is not None

    def partition(clusters: np.ndarray) -> set[frozenset[int]]:
        return {frozenset(np.flatnonzero(clusters == one).tolist()) for one in set(clusters.tolist())}

    turned = np.roll(back.subtopics.clusters, len(back.subtopics.sides[1]))
    assert partition(forth.subtopics.clusters) == partition(turned)
    assert len(partition(turned)) > 2


def test_a_comparison_holds_subtopics_as_data(encoder: DocumentEncoder, documents: Documents) -> None:
    comparison = encoder.compare(*documents, subtopics="words", cluster_size=4)
    table, matrix = comparison.subtopics, comparison.sentences
    assert table is not None and matrix is not None
    assert comparison.to_dict()["subtopics"] == table.to_dict()
    for row in table.rows:
        expected = matrix[np.ix_(row.a, row.b)].mean() if row.holder == "both" else None
        assert row.similarity == pytest.approx(expected, abs=1e-6)
    alone = encoder.compare("Rice.", subtopics="words").subtopics
    assert alone is not None and (alone.subtopics.first, sum(len(row.a) for row in alone.rows)) == (1, 1)
    first = encoder.compare(*documents, subtopics="words", receptive_field=5).subtopics
    assert first is not None and [len(side) for side in first.subtopics.sides] == [5, 5] and first.beyond == (7, 7)


def test_bad_settings_are_refused(encoder: DocumentEncoder, documents: Documents) -> None:
    for name, value in (("subtopics", "topics"), ("cluster_size", 0), ("receptive_field", 0)):
        with pytest.raises(SettingsError) as error:
            encoder.compare(*documents, **{"subtopics": "words", name: value})  # type: ignore[arg-type]
        assert name in str(error.value) and str(value) in str(error.value)
    comparison = encoder.compare(*documents)
    assert comparison.subtopics is None and comparison.to_dict()["subtopics"] is None
    with pytest.raises(SettingsError, match="sentences"):
        pair_subtopics(comparison.a, comparison.b, "en", subtopic_finder("words", "en"))


COLDE: dict[str, Any] = {"readout": "sections", "graph_layers": 0, "projection_size": None}


@pytest.fixture(scope="module")
def three() -> list[Document]:
    texts = (("The tide came in.", "A wall held it."), ("Salt is dried.", "Water runs off.", "Rakes."), ("Clocks.",))
    return [
        Document(f"d{n}", tuple(Section(text, f"part {m}") for m, text in enumerate(parts)))
        for n, parts in enumerate(texts)
    ]


@pytest.mark.parametrize("settings", [{}, COLDE], ids=["graph", "colde"])
def test_every_block_is_the_comparison_of_its_two_documents(
    tiny_encoder: Encoders, three: Documents, settings: dict[str, Any]
) -> None:
    encoder = tiny_encoder("bert", **settings)
    with torch.no_grad():
        for parameter in encoder.model.readout.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    together = encoder.compare_all(three)
    assert together.first_sections == (0, 2, 5, 6)
    assert together.first_passages[-1] == len(together.passages) == 6
    for i, j in permutations(range(3), 2):
        two = encoder.compare(three[i], three[j])
        assert together.document_scores[i, j] == pytest.approx(two.document)
        sections = [slice(*bounds) for bounds in pairwise(together.first_sections)]
        passages = [slice(*bounds) for bounds in pairwise(together.first_passages)]
        np.testing.assert_allclose(together.sections[sections[i], sections[j]], two.sections, atol=1e-6)
        np.testing.assert_allclose(together.passages[passages[i], passages[j]], two.passages, atol=1e-6)
        if not settings:
            assert together.attention is None
            continue
        assert together.attention is not None
        np.testing.assert_allclose(together.attention[:, passages[i], passages[j]], two.attention_to_b, atol=1e-6)
        own = together.documents[i].attention
        assert own is not None
        np.testing.assert_array_equal(together.attention[:, passages[i], passages[i]], own.within())
        # Every passage looks at every document once.
        np.testing.assert_allclose(together.attention.sum(-1), 3, atol=1e-5)


def test_one_document_twice_is_within_only_where_it_meets_itself(tiny_encoder: Encoders, three: Documents) -> None:
    together = tiny_encoder("bert", **COLDE).compare_all([three[1], three[1]])
    assert together.attention is not None
    assert (together.attention[:, :3, :3] == 0).any() and (together.attention[:, :3, 3:] > 0).all()
