from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.segmentation.terms import TermMaker
from graphdoc.similarity.encoded_document import EncodedDocument
from graphdoc.similarity.evidence import Calibration, CosineStatistics, Evidence, Reference
from graphdoc.similarity.mutual_comparison import MutualComparison

WORDS = ["rice", "steam", "tide", "moon", "lens", "glass", "grain", "field", "river", "stone"]


@pytest.fixture(scope="module")
def encoder() -> DocumentEncoder:
    return DocumentEncoder.from_pretrained("mini", device="cpu", passage_words=12)


@pytest.fixture(scope="module")
def documents(encoder: DocumentEncoder) -> list[EncodedDocument]:
    draw = np.random.default_rng(0)
    made = []
    for number in range(6):
        texts = [" ".join(draw.choice(WORDS[number : number + 5], 12)) + "." for _ in range(3)]
        sections = (Section("\n\n".join(texts[:2]), "Of grain"), Section(texts[2]))
        made.append(encoder.encode_levels(Document(str(number), sections, f"The {WORDS[number]}")))
    return made


def by_hand(documents: list[EncodedDocument]) -> np.ndarray:
    """Sums of z-scores of all pairs, as loops over terms."""
    maker, texts = TermMaker("en"), []
    for one in documents:
        document = one.segmented.document
        headings = " ".join(section.heading for section in document.sections)
        texts.append(Counter(maker.occurrences(" ".join([document.title, headings, *one.segmented.texts]))))
    frequencies = Counter(term for counts in texts for term in counts)
    weights = [
        {
            term: math.sqrt(count) * (1 + math.log((1 + len(texts)) / (1 + frequencies[term])))
            for term, count in counts.items()
            if frequencies[term] > 1
        }
        for counts in texts
    ]
    vectors = np.array([one.vector[:384] for one in documents], np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors -= vectors.mean(axis=0)

    def cosines(a: int, b: int) -> tuple[float, float]:
        dot = sum(weights[a][term] * weights[b].get(term, 0) for term in weights[a])
        words = dot / math.sqrt(sum(w * w for w in weights[a].values()) * sum(w * w for w in weights[b].values()))
        return float(vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])), words

    values = np.array([cosines(a, b) for a, b in combinations(range(len(documents)), 2)])
    return ((values - values.mean(axis=0)) / values.std(axis=0)).sum(axis=1)


def test_scores_are_sums_of_z_scores_of_both_cosines(documents: list[EncodedDocument]) -> None:
    evidence = Evidence(Reference.from_documents(documents))
    pairs = np.triu_indices(len(documents), 1)
    sums = by_hand(documents)
    assert np.allclose(evidence.sums(documents, documents)[pairs], sums, atol=1e-6)
    assert np.allclose(evidence.scores(documents, documents)[pairs], 1 / (1 + np.exp((6 - sums) / 3)), atol=1e-6)
    # Rows of a collection give the same but for a constant.
    units, weights = np.eye(3), sparse.csr_matrix(np.ones((3, 1)))
    calibration = Calibration(CosineStatistics(0.1, 0.25), CosineStatistics(0.2, 0.5))
    rows, every = calibration.joined(units, weights), np.ones((3, 3), bool)
    sums = calibration.scores((units,) * 2, (weights,) * 2, every, every)
    assert np.allclose((rows @ rows.T).toarray() - 0.8, sums)


def test_contributions_of_pairs_of_passages_and_of_words_add_up(documents: list[EncodedDocument]) -> None:
    evidence = Evidence(Reference.from_documents(documents))
    for a, b in combinations(documents, 2):
        total = float(evidence.sums([a], [b])[0, 0])
        parts = evidence.score_parts(a, b)
        shared = evidence.shared_words(a, b)
        assert shared is not None
        words, base = shared
        assert evidence.contributions(a, b).sum() == pytest.approx(total, abs=1e-6)
        assert parts["words"] + parts["vectors"] == pytest.approx(total, abs=1e-6)
        assert sum(part for _, part in words) + base == pytest.approx(parts["words"], abs=1e-6)
        assert np.allclose(evidence.contributions(a, b), evidence.contributions(b, a).T)


@pytest.mark.parametrize(
    "texts", [["Rice."] * 3, ["???", "!!!", "..."], ["蒸米饭要二十分钟。", "潮水涨了。", "蒸米饭。"]]
)
def test_alike_wordless_and_unspaced_documents_have_finite_scores(encoder: DocumentEncoder, texts: list[str]) -> None:
    documents = [encoder.encode_levels(text) for text in texts]
    evidence = Evidence(Reference.from_documents(documents))
    assert np.isfinite(evidence.sums(documents, documents)).all()
    assert np.isfinite(evidence.contributions(documents[0], documents[1])).all()
    total = evidence.sums(documents[:1], documents[1:2])[0, 0]
    assert evidence.contributions(documents[0], documents[1]).sum() == pytest.approx(total, abs=1e-6)


def test_a_reference_is_read_as_it_was_kept(documents: list[EncodedDocument]) -> None:
    reference = Reference.from_documents(documents)
    again = Reference.from_values(reference.to_dict(), reference.idf)
    sums = (Evidence(one).sums(documents, documents) for one in (reference, again))
    assert np.allclose(*sums, atol=1e-2)


def test_vectors_count_twice_for_unknown_words(encoder: DocumentEncoder, documents: list[EncodedDocument]) -> None:
    reference = Reference.from_documents(documents)
    evidence = Evidence(reference)
    foreign, chinese, *made = map(encoder.encode_levels, ("潮水涨了。", "蒸米饭。", "Blorp.", "Quux."))
    assert np.isnan(evidence.lengths([foreign, *made])).all() and np.isfinite(evidence.lengths(documents)).all()
    vectors, words = reference.calibration.vectors, reference.calibration.words
    for other, second in ((foreign, words), (chinese, vectors), (documents[0], vectors)):
        parts = evidence.score_parts(foreign, other)
        expected = vectors.z_scores(parts["vectors_cosine"]) + second.z_scores(parts["vectors_cosine"])
        assert evidence.sums([foreign], [other])[0, 0] == pytest.approx(expected, abs=1e-6)
        assert evidence.contributions(foreign, other).sum() == pytest.approx(expected, abs=1e-6)
        assert "words" not in parts and evidence.shared_words(foreign, other) is None


def test_fifty_documents_are_measured_by_themselves(documents: list[EncodedDocument]) -> None:
    many = documents * 9
    comparison = MutualComparison(many, {}, "evidence")
    assert comparison.compare(0, 1).share == comparison.share(0, 1) is not None
    assert np.allclose(comparison.document_scores, Evidence(Reference.from_documents(many)).scores(many, many))
    assert comparison.compare(0, 1).document == pytest.approx(comparison.document_scores[0, 1])


def test_unknown_words_have_no_share_and_the_same_text_is_closest(encoder: DocumentEncoder) -> None:
    mini = DocumentEncoder.from_pretrained("mini", device="cpu")
    made, known = ["Blorp snarf zzyq.", "Quux wibble frobnik."], ["Rice is steamed."] * 2
    together = mini.compare_all([*made, *known])
    assert together.share(0, 1) is None and together.share(0, 2) is None and together.share(2, 3) > 0.999
    assert mini.compare(*made).share is None
    alike = mini.compare_all([known[0]] * 50)
    assert alike.share(0, 1) > 0.999 and alike.document_scores[0, 1] == pytest.approx(together.document_scores[2, 3])
    assert mini.compare(made[0], made[0] + " ").document == pytest.approx(mini.compare(*known).document, abs=0.01)
