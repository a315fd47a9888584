from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.documents.readers.pair_files import LabelledPair
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.evaluation.faithfulness import contribution_curves
from graphdoc.evaluation.pairs import PairEvaluator
from graphdoc.losses import ONE_PROCESS
from graphdoc.recipes.compare import objective_of
from graphdoc.registry import SIMILARITIES
from graphdoc.settings.finetuning import ComparisonSettings
from graphdoc.similarity import EncodedDocument
from graphdoc.similarity.kinds import Background, Cosine, maxsim, maxsim_of_pairs, packed, similarity_of
from graphdoc.training.objectives import PairMaxSim

EncoderFactory = Callable[..., DocumentEncoder]
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


def test_stored_vectors_may_be_in_half_precision() -> None:
    (a,), b = drawn([4], 0, 32), drawn([3, 5], 1, 32)
    stored = [torch.from_numpy(one).to(torch.bfloat16) for one in b]
    found = maxsim(torch.from_numpy(a), torch.tensor([4]), torch.cat(stored), torch.tensor([3, 5]))
    expected = [by_hand(a, one.double().numpy()) for one in stored]
    np.testing.assert_allclose(found.numpy()[0], expected, atol=1e-6)


def test_a_pair_has_a_gradient() -> None:
    a, b = (torch.randn(count, 4, requires_grad=True, dtype=torch.double) for count in (3, 2))
    maxsim(*packed([a]), *packed([b]), block=None).backward()  # type: ignore[no-untyped-call]
    assert a.grad is not None and bool(torch.isfinite(a.grad).all()) and float(a.grad.abs().sum()) > 0


@pytest.mark.parametrize(
    ("readout", "layers", "lexical"), [("mean", 2, False), ("sections", 0, True), ("attention", 2, True)]
)
def test_contributions_add_up_to_the_score(
    tiny_encoder: EncoderFactory, structured: list[Document], readout: str, layers: int, lexical: bool
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
        numbers = encoder.model.lexical.settings.numbers  # type: ignore[union-attr]
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

    def parts(self, document: EncodedDocument) -> np.ndarray:
        return np.asarray(document.passages[:1] / np.linalg.norm(document.passages[0]), np.float64)

    def weights(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.ones((len(a), len(b)))

    def contributions(self, a: EncodedDocument, b: EncodedDocument) -> np.ndarray:
        found = np.zeros((len(a.passages), len(b.passages)))
        found[:1, :1] = super().contributions(a, b)
        return found

    def scores(self, a: Sequence[Any], b: Sequence[Any]) -> np.ndarray:
        return np.concatenate([self.parts(one) for one in a]) @ np.concatenate([self.parts(one) for one in b]).T


def test_a_kind_is_one_class_and_one_line(
    tiny_encoder: EncoderFactory, structured: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIMILARITIES, "first", f"{__name__}:First")
    encoder = tiny_encoder("bert", similarity="first", **MEAN)
    comparison, several = encoder.compare(*structured[:2]), encoder.compare_all(structured)
    assert (
        comparison.document == pytest.approx(comparison.passages[0, 0]) == pytest.approx(several.document_scores[0, 1])
    )
    assert comparison.section_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)
    np.testing.assert_allclose(several.sections_of(0, 1), comparison.sections, atol=1e-6)
    assert First.meaning in comparison.to_html()


def test_vectors_of_passages_are_compared(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    encoder = tiny_encoder("bert", similarity="maxsim", **MEAN)
    passages = encoder.encode(structured, level="passage")
    found = encoder.similarity(passages[:2], passages)
    expected = [[by_hand(one, other) for other in passages] for one in passages[:2]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    tensors = encoder.encode(structured, level="passage", output="torch")
    assert isinstance(encoder.similarity(tensors, tensors), torch.Tensor)
    for wrong in (encoder.encode(structured), passages[0], [], ["rice"]):
        with pytest.raises(SettingsError, match="level='passage'"):
            encoder.similarity(wrong, passages)
    assert similarity_of(encoder.model.config.similarity).vectors == "cosine"


def test_pairs_are_measured_passage_by_passage(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    encoder = tiny_encoder("bert", similarity="maxsim", **MEAN)
    pairs = [LabelledPair(structured[0].id, structured[1].id, 1), LabelledPair(structured[2].id, structured[1].id, 0)]
    evaluator = PairEvaluator(structured, pairs, resamples=0)
    passages = encoder.encode(structured, level="passage")
    expected = [by_hand(passages[0], passages[1]), by_hand(passages[2], passages[1])]
    np.testing.assert_allclose(evaluator.similarities(encoder), expected, atol=1e-6)
    assert evaluator.tfidf(encoder).shape == (2,)


def test_faithfulness_watches_it(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    encoder = tiny_encoder("bert", similarity="maxsim", **MEAN)
    encoder.fit(structured, lexical={"least_documents": 1})
    pairs = [LabelledPair(structured[0].id, structured[1].id, 1)]
    curves = contribution_curves(encoder, structured, pairs, orders=1, show_progress=False)
    passages = encoder.encode(structured, level="passage")
    whole = by_hand(passages[0], passages[1])
    assert [curve[0, 0] for curve in curves.values()] == pytest.approx([whole, whole], abs=1e-6)


def test_pairs_are_trained_on_passage_by_passage(tiny_encoder: EncoderFactory) -> None:
    settings = ComparisonSettings(
        corpus={"source": "letters.jsonl"}, groups={"by": "pairs", "file": "pairs.tsv"}, loss={"kind": "cosine"},
        sections={"number": 1},
    )  # fmt: skip
    model = tiny_encoder("bert", similarity="maxsim", **MEAN).model
    objective = objective_of(settings, model)
    assert isinstance(objective, PairMaxSim)
    contrast = settings.replace(loss={"kind": "contrastive"})
    with pytest.raises(SettingsError, match=r"loss\.kind=cosine"):
        objective_of(contrast, model)
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


def test_shares_are_right_on_other_pairs_of_the_same_kind() -> None:
    draw = np.random.default_rng(0)
    for kind in (draw.normal, draw.standard_t, draw.exponential):
        options = {"df": 6} if kind == draw.standard_t else {}
        background = Background.of(kind(size=200_000, **options), 633)
        shares = np.array([background.share(score) for score in kind(size=20_000, **options)])
        for level in (0.1, 0.5, 0.9, 0.99, 0.999):
            # Within four standard errors of a share of 20,000 draws.
            error = 4 * np.sqrt(level * (1 - level) / 20_000)
            assert (shares > level).mean() == pytest.approx(1 - level, abs=error + 0.002 * (level < 0.9))


def test_beyond_the_scores_that_are_kept_the_share_goes_on_as_they_did() -> None:
    # Of exponential scores a share of e^-s is above s.
    background = Background.of(np.random.default_rng(1).exponential(size=500_000), 1_001)
    for score in (9.0, 11.0, 13.0):
        assert np.log(1 - background.share(score)) == pytest.approx(-score, rel=0.1)
    assert background.share(100.0) <= 1.0


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=300), st.floats(-1, 2), st.floats(-1, 2))
def test_a_higher_score_never_has_a_lower_share(scores: list[float], first: float, second: float) -> None:
    background = Background.of(np.array(scores), 25)
    low, high = (background.share(score) for score in sorted((first, second)))
    assert 0 <= low <= high <= 1
    assert background.share(min(scores) - 0.1) == 0


def test_of_equal_scores_none_is_less_alike() -> None:
    background = Background.of(np.r_[-np.ones(900), np.ones(870)], 60)
    assert background.share(-1.0) == 0 and background.share(1.0) == background.share(1 - 1e-8) < 0.6
    # Nothing is known beyond the closest of the pairs.
    assert background.share(1.5) <= 1 - 1 / 1_770 + 1e-5
    assert Background.of(np.ones(1_770), 60).share(1.0) == 0


def test_it_is_the_same_after_json() -> None:
    background = Background.of(np.random.default_rng(2).normal(size=1_225), 50)
    assert Background.from_values(json.loads(json.dumps(background.to_dict()))) == background
