"""Subtopics: similarities against the paper, spectral clusters and learned ones, and their table."""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from typed import Encoders, Log

from graphdoc import DocumentEncoder
from graphdoc.errors import DocumentError, ModelError, SettingsError
from graphdoc.inference.learned_subtopics import AdaptiveSubtopics, subtopic_finder
from graphdoc.segmentation.terms import SentenceTerms, TermMaker
from graphdoc.settings.document import ClusteringSettings
from graphdoc.subtopics import Subtopics, find_subtopics
from graphdoc.subtopics.subtopics import number_of_subtopics, vector_similarity, word_similarity
from graphdoc.subtopics.table import SubtopicTable, leading_words

sentence = st.builds(SentenceTerms, st.frozensets(st.sampled_from("abcdefgh"), max_size=6), st.integers(0, 12))
sentences = st.lists(sentence, min_size=1, max_size=12)


@settings(deadline=None, max_examples=40)
@given(sentences)
def test_word_similarity_is_equation_1(given: list[SentenceTerms]) -> None:
    found = word_similarity(given)
    for i, one in enumerate(given):
        for j, other in enumerate(given):
            logarithms = np.log(max(one.words, 1)) + np.log(max(other.words, 1))
            expected = len(one.terms & other.terms) / logarithms if i != j and logarithms else 0.0
            assert found[i, j] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("language", "text", "terms", "words"),
    [
        ("en", "The dams were damming a river, and Rivers rise!", {"dam", "river", "rise"}, 9),
        # Pairs of characters in a script without spaces, and words as they are without a stemmer.
        ("zh", "三星手机 Galaxy S8", {"三星", "星手", "手机", "galaxy", "s8"}, 4),
        ("tlh", "Qapla' batlh Daqawlu'taH batlh", {"qapla", "batlh", "daqawlu'tah"}, 4),
        ("de", "Die Häuser und das Haus", {"haus"}, 5),
        ("no", "Fiskene og fisken", {"fisk"}, 3),
        ("fr", "Les maisons de la maison", {"maison"}, 5),
    ],
)
def test_terms_are_distinct_stems_without_stop_words_and_lengths_are_all_words(
    language: str, text: str, terms: set[str], words: int
) -> None:
    maker = pickle.loads(pickle.dumps(TermMaker(language)))
    assert (maker.terms(text).terms, maker.terms(text).words) == (terms, words)


def test_placed_terms_keep_order_repetition_and_case() -> None:
    assert TermMaker("zh").terms("机").terms == {"机"}
    found = TermMaker("en").placed("Dams hold; the Dam holds.")
    assert [tuple(one) for one in found] == [("dam", "Dams"), ("hold", "hold"), ("dam", "Dam"), ("hold", "holds")]


def test_vector_similarity_keeps_nearest_positive_cosines() -> None:
    vectors = np.random.default_rng(0).normal(size=(9, 4))
    vectors[3] = 0
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = np.maximum(unit @ unit.T, 0)
    np.fill_diagonal(cosines, 0)
    order = np.argsort(-cosines, axis=1, kind="stable")
    found = vector_similarity(vectors, 2)
    for i in range(9):
        for j in range(9):
            nearest = j in order[i, :2] or i in order[j, :2]
            assert found[i, j] == pytest.approx(cosines[i, j] if nearest else 0, abs=1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(vector_similarity(vectors, None), cosines, atol=1e-12)


def blocks(sizes: list[int], noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Similarities of sentences in groups, and the groups."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    random = np.random.default_rng(1)
    truth = random.permutation(truth)
    similarity = (truth[:, None] == truth[None]) + noise * random.random((len(truth), len(truth)))
    similarity = (similarity + similarity.T) / 2
    np.fill_diagonal(similarity, 0)
    return similarity, truth


def test_groups_are_found() -> None:
    similarity, truth = blocks([6, 7, 5, 6])
    found = find_subtopics(similarity, 10)
    assert found.number == 4
    assert len({pair for pair in zip(truth.tolist(), found.clusters.tolist(), strict=True)}) == 4
    assert [len(side) for side in found.sides] == [10, 14]


def test_the_minimum_normalized_cut_is_found_of_a_small_graph() -> None:
    similarity, _ = blocks([5, 4], noise=0.4)
    found = find_subtopics(similarity, 4, cluster_size=5).clusters
    weights = similarity + 1e-4
    np.fill_diagonal(weights, 0)
    degrees = weights.sum(axis=1)

    def normalized_cut(chosen: np.ndarray) -> float:
        between = weights[chosen][:, ~chosen].sum()
        return float(between / degrees[chosen].sum() + between / degrees[~chosen].sum())

    partitions = [np.array([bit == "1" for bit in f"{number:09b}"]) for number in range(1, 2**8)]
    assert normalized_cut(found == 1) == pytest.approx(min(map(normalized_cut, partitions)))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 12), st.integers(0, 5))
def test_any_similarities_give_numbers_without_gaps(first: int, second: int, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    similarity = random.random((first + second,) * 2) * (random.random((first + second,) * 2) < 0.1)
    found = find_subtopics(similarity + similarity.T, first, cluster_size=size, seed=seed)
    assert len(found.clusters) == first + second
    assert set(found.clusters.tolist()) == set(range(found.number))
    assert found.number <= number_of_subtopics(first + second, size)
    firsts = [found.clusters.tolist().index(number) for number in range(found.number)]
    assert firsts == sorted(firsts)
    again = find_subtopics(similarity + similarity.T, first, cluster_size=size, seed=seed)
    np.testing.assert_array_equal(found.clusters, again.clusters)
    turned = found.turned()
    assert turned.number == found.number
    np.testing.assert_array_equal(turned.turned().clusters, found.clusters)


@pytest.mark.parametrize(("alike", "size", "clusters"), [(0.2, 6, [0, 0]), (0.0, 6, [0, 1]), (0.2, 1, [0, 1])])
def test_two_sentences_are_one_subtopic_where_they_are_alike(alike: float, size: int, clusters: list[int]) -> None:
    similarity = alike * (1 - np.eye(2))
    assert find_subtopics(similarity, 1, cluster_size=size).clusters.tolist() == clusters


@pytest.mark.parametrize("way", ["words", "vectors"])
@pytest.mark.parametrize("sentences", [1, 2, 7])
def test_a_document_has_all_subtopics_in_common_with_itself(way: str, sentences: int) -> None:
    draw = np.random.default_rng(sentences)
    nouns = draw.choice(["rice", "steam", "koji", "tide", "wave", "marsh"], (sentences, 3))
    finder = subtopic_finder(way, "en")
    own = finder.features([f"{' '.join(words)}." for words in nouns], draw.normal(0.2, 1, (sentences, 8)))
    found = finder.find(own, own)
    assert set(found.sides[0]) == set(found.sides[1])


def test_sentences_without_anything_in_common() -> None:
    assert find_subtopics(np.ones((1, 1)), 1).clusters.tolist() == [0]
    assert find_subtopics(np.zeros((30, 30)), 12).number == 1
    similarity, _ = blocks([6, 6])
    similarity[0] = similarity[:, 0] = 0
    assert find_subtopics(similarity, 6).number == 2
    assert Subtopics.from_labels([7, 2, 7, 5, 2], 2).clusters.tolist() == [0, 1, 0, 2, 1]


def test_texts_and_vectors_both_find_what_belongs_together() -> None:
    about = {
        "rice": ["Rice is steamed with koji.", "The steamed rice cools.", "Koji grows on rice.", "Steam the rice."],
        "tides": ["Tides rise at the barrier.", "The barrier closes at high tides.", "A tide falls.", "Barrier gates."],
    }
    words = subtopic_finder("words", "en")
    first, second = (words.features(texts) for texts in about.values())
    assert words.find(first, second, cluster_size=4).clusters.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    vectors = subtopic_finder("vectors", "en")
    corners = [np.random.default_rng(side).normal(0.1, 0.02, (4, 3)) + np.eye(3)[side] for side in range(2)]
    sides = [vectors.features(texts, corner) for texts, corner in zip(about.values(), corners, strict=True)]
    assert vectors.find(*sides, cluster_size=4).clusters.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="vectors"):
        vectors.features(about["rice"])


def test_more_sentences_than_can_be_clustered_are_refused_at_once() -> None:
    finder = subtopic_finder("vectors", "en")
    many = finder.features([], np.ones((6000, 2)))
    with pytest.raises(DocumentError, match=r"12,000 sentences .* 10,000.*--receptive-field"):
        finder.find(many, many)


TEXTS = [
    "Rice is steamed.", "The dam holds rivers.", "Steamed rice cools.",
    "Rivers meet the DNA dam.", "Clocks strike.", "Clocks strike again: a clock.",
]  # fmt: skip
SUBTOPICS = Subtopics.from_labels([0, 1, 0, 1, 2, 2], 3)


def table(**changes: object) -> SubtopicTable:
    similarity = np.arange(36, dtype=float).reshape(6, 6)
    return SubtopicTable.from_similarity(
        SUBTOPICS, TEXTS, similarity + similarity.T, "en", **{"by": "words", "cluster_size": 2, **changes}
    )  # type: ignore[arg-type]


def test_every_subtopic_says_who_has_it() -> None:
    rows = table().rows
    assert [(row.number, row.holder, row.a, row.b) for row in rows] == [
        (1, "both", (1,), (0,)), (0, "a", (0, 2), ()), (2, "b", (), (1, 2)),
    ]  # fmt: skip
    assert [row.share_a for row in rows] == [1 / 3, 2 / 3, 0]
    assert [row.share_b for row in rows] == [1 / 3, 0, 2 / 3]
    # Sentence 1 of A and sentence 0 of B, which is the fourth of all.
    assert [row.similarity for row in rows] == [(1 * 6 + 3) + (3 * 6 + 1), None, None]


def test_sentences_that_are_not_alike_are_no_subtopic_of_both(mini: DocumentEncoder) -> None:
    similarity = np.full((6, 6), 0.1)
    similarity[0, 2] = 0.9
    assert SUBTOPICS.parted(similarity, 0.1).clusters.tolist() == SUBTOPICS.clusters.tolist()
    assert SUBTOPICS.parted(similarity, 0.2).clusters.tolist() == [0, 1, 0, 2, 3, 3]
    least = mini.background and mini.background.subtopics
    assert least is not None and 0.1 < least < 0.3
    tides = "The sea floods the marsh. A dike holds the tide. A storm closes the sluice."
    for other, holders in (
        (tides.replace("sea", "tide"), {"both"}),
        ("Clocks strike. A wheel turns slowly.", {"a", "b"}),
    ):
        found = mini.compare(tides, other, subtopics="vectors", cluster_size=9).subtopics
        assert found is not None and {row.holder for row in found.rows} == holders


def test_within_one_document_similarity_is_that_of_all_sentences() -> None:
    own = Subtopics.from_labels([0, 0, 0, 1], 4)
    similarity = np.array([[9, 1, 2, 0], [1, 9, 3, 0], [2, 3, 9, 0], [0, 0, 0, 9.0]])
    texts, options = TEXTS[:4], {"by": "vectors", "cluster_size": 3, "is_within": True}
    made = SubtopicTable.from_similarity(own, texts, similarity, "en", **options)  # type: ignore[arg-type]
    assert [(row.holder, row.similarity) for row in made.rows] == [("a", 2.0), ("a", None)]


def test_leading_words_are_those_of_class_based_tfidf() -> None:
    found = leading_words(SUBTOPICS, TEXTS, "en", top_k=3)
    stems = [
        Counter({"rice": 2, "steam": 2, "cool": 1}),
        Counter({"dam": 2, "hold": 1, "river": 2, "meet": 1, "dna": 1}),
        Counter({"clock": 3, "strike": 2}),
    ]
    mean = sum(sum(one.values()) for one in stems) / 3
    total = sum(stems, Counter())
    for words, own in zip(found, stems, strict=True):
        weights = {term: count * np.log1p(mean / total[term]) for term, count in own.items()}
        best = sorted(weights.values(), reverse=True)[: len(words)]
        (terms,) = zip(*(TermMaker("en").terms(word).terms for word in words), strict=True)
        assert [weights[term] for term in terms] == pytest.approx(best)
    assert found[0][0] in ("rice", "steamed")
    assert found[2] == ("clocks", "strike")


def test_everything_is_plain_values_and_sentences_without_words_have_none() -> None:
    values = table(beyond=(4, 0)).to_dict()
    assert (values["beyond"], values["a"], values["b"]) == ([4, 0], [0, 1, 0], [1, 2, 2])
    assert values["rows"][0] == {
        "number": 1, "holder": "both", "words": ["dam", "rivers", "holds", "meet", "DNA"], "a": [1], "b": [0],
        "share_a": 0.333333, "share_b": 0.333333, "similarity": 28.0,
    }  # fmt: skip
    assert leading_words(Subtopics.from_labels([0, 0], 1), ["12 34", "..."], "en") == [()]


RICE = ["Koji grows on rice.", "Rice is steamed first.", "The mould makes malt.", "Barley makes malt as well."]
TIDES = ["The sea floods the marsh.", "A dike holds the tide.", "A storm closes the sluice."]


@pytest.fixture
def encoder(tiny_encoder: Encoders) -> DocumentEncoder:
    """An encoder whose head for subtopics is drawn, and so far from even."""
    settings = {"pooling": "mean", "projection_size": None, "graph_layers": 1, "readout": "initial_mean"}
    made = tiny_encoder("bert", unit="sentence", skip="identity", **settings)
    torch.manual_seed(0)
    head = made.model.add_subtopic_head(ClusteringSettings(columns=4, neighbours=3))
    with torch.no_grad():
        head.linear.weight.mul_(30)
    return made


@pytest.fixture
def finder(encoder: DocumentEncoder) -> AdaptiveSubtopics:
    return AdaptiveSubtopics(encoder)


def test_a_sentence_is_in_the_subtopic_it_belongs_to_most(finder: AdaptiveSubtopics, encoder: DocumentEncoder) -> None:
    first, second = finder.features(RICE), finder.features(TIDES)
    assigned = finder.assignments(first, second, cluster_size=2)
    assert assigned.shape == (7, 4)
    np.testing.assert_allclose(assigned.sum(1), 1, rtol=1e-6)
    found = finder.find(first, second, cluster_size=2)
    assert found.first == 4
    largest = assigned.argmax(1)
    same = largest[:, None] == largest
    # The pair in the other order has the same subtopics, and features are the vectors that training reads.
    for size in (2, 3, 6):
        turned = finder.find(second, first, cluster_size=size).turned()
        np.testing.assert_array_equal(finder.find(first, second, cluster_size=size).clusters, turned.clusters)
    (segmented,) = encoder.with_passage_vectors([" ".join(RICE)])
    assert [segmented.text(span) for span in segmented.passages] == RICE
    np.testing.assert_allclose(first, segmented.passage_vectors, atol=1e-5)
    np.testing.assert_array_equal(found.clusters[:, None] == found.clusters, same)
    # Numbered by their first sentence; those without sentences are dropped.
    assert sorted(set(found.clusters.tolist())) == list(range(found.number))
    np.testing.assert_array_equal(
        finder.similarity(first, second), vector_similarity(np.concatenate([first, second]), 3)
    )


@pytest.mark.parametrize("texts", [([], []), (RICE[:1], TIDES[:1]), (RICE, [])])
def test_few_sentences_and_one_document_alone(finder: AdaptiveSubtopics, texts: tuple[list[str], list[str]]) -> None:
    found = finder.find(*map(finder.features, texts))
    assert (len(found.clusters), found.first) == (len(texts[0]) + len(texts[1]), len(texts[0]))
    # Sentences that are like no other are put somewhere.
    assert len(finder.find(np.zeros((3, 24), np.float32), np.eye(24, dtype=np.float32)[:5]).clusters) == 8


def test_more_subtopics_than_columns_are_capped_and_said(finder: AdaptiveSubtopics, caplog: Log) -> None:
    first, second = finder.features(RICE), finder.features(TIDES)
    with caplog.at_level(logging.WARNING):
        assert finder.assignments(first, second, cluster_size=2).shape[1] == 4
        assert not caplog.records
        assert finder.assignments(first, second, cluster_size=1).shape[1] == 4
        finder.find(first, second, cluster_size=1)
    (record,) = caplog.records
    assert {7, 4} <= set(record.args)  # type: ignore[arg-type]


def test_it_is_chosen_by_name_and_needs_a_model_that_has_learned_it(
    encoder: DocumentEncoder, mini: DocumentEncoder, tmp_path: Path
) -> None:
    loaded = subtopic_finder("adaptive", "en", encoder.save_pretrained(tmp_path / "model"))
    assert isinstance(loaded, AdaptiveSubtopics)
    own = AdaptiveSubtopics(encoder)
    first, second = own.features(RICE), own.features(TIDES)
    np.testing.assert_allclose(
        loaded.assignments(loaded.features(RICE), loaded.features(TIDES)), own.assignments(first, second), atol=1e-6
    )
    with pytest.raises(SettingsError, match="subtopic_model"):
        subtopic_finder("adaptive", "en")
    with pytest.raises(SettingsError, match="'topics'"):
        subtopic_finder("topics", "en")
    for work in (lambda: subtopic_finder("adaptive", "en", tmp_path / "nowhere"), lambda: AdaptiveSubtopics(mini)):
        with pytest.raises(ModelError):
            work()


def test_other_training_leaves_the_head_alone_or_takes_it_away(encoder: DocumentEncoder) -> None:
    from graphdoc.training.optimizer import prepare_tuning

    prepare_tuning(encoder.model, "full")
    assert not any(weight.requires_grad for weight in encoder.model.subtopic_head.parameters())
    prepare_tuning(encoder.model, "frozen", subtopics=True)
    trained = {name.partition(".")[0] for name, weight in encoder.model.named_parameters() if weight.requires_grad}
    assert trained == {"graph", "subtopic_head"}
    encoder.model.remove_head(subtopics=False)
    assert encoder.model.subtopic_head is not None
    encoder.model.remove_head()
    assert encoder.model.subtopic_head is None
    assert encoder.model.config.subtopics is None
