"""What a model reads of the views of pairs, and the scores it gives; special tokens against the tokenizers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tokenizers.processors import BertProcessing, RobertaProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from typed import Backbones, Encoders, Models, Patch

from graphdoc import Document, DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.evaluation.pairs import MatchedPairs
from graphdoc.graphs.batch import GraphBatch, Packing
from graphdoc.matching import match_pairs
from graphdoc.matching.matcher import PairMatcher
from graphdoc.matching.reader import CrossReader, DualReader, SpecialTokens, ViewReader, ViewTokens
from graphdoc.modeling import DocumentModel
from graphdoc.sampling.views import Purpose

WORDS = ("great", "small", "red", "cold", "warm", "slow", "quick", "grey")


def test_a_cross_encoder_without_a_head_is_refused(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder(views={"view_tokens": 24})
    with pytest.raises(ModelError) as caught:
        encoder.match("Rice is steamed. Koji grows.", "Tides rise. The sea is deep.")
    assert encoder.name in str(caught.value) and "head" in str(caught.value)


@pytest.mark.parametrize("reader", ["cross", "dual"])
@pytest.mark.parametrize("joint", [False, True])
def test_views_alike_are_read_once(reader: str, joint: bool, tiny_encoder: Encoders, monkeypatch: Patch) -> None:
    long, other = (" ".join(f"The {word} {noun} rises." for word in WORDS) for noun in ("tide", "dough"))
    pairs = [("Rice is steamed.", "Koji grows."), (long, other), ("Koji grows.", "Rice is steamed.")]
    views = {"encoder": reader, "view_tokens": 24, "views": 3, "joint": joint}
    encoder = tiny_encoder(views=views, graph_layers=0, readout="mean")
    if reader == "cross":
        encoder.model.add_head(["different", "similar"])
    kind = type(PairMatcher(encoder).reader)
    read, made = [], kind.graphs

    def graphs(self: ViewReader, views: Sequence[ViewTokens], views_per_graph: int = 1) -> GraphBatch:
        read.append(len(views))
        return made(self, views, views_per_graph)

    monkeypatch.setattr(kind, "graphs", graphs)
    found = list(match_pairs(encoder, [*pairs, pairs[0]]))
    distinct = len(found[1].views) if joint else len({(view.a, view.b) for view in found[1].views})
    assert read == [2 * (3 if joint else 1) + distinct]
    for pair, match in zip([*pairs, pairs[0]], found, strict=True):
        (alone,) = match_pairs(encoder, [pair])
        assert match.score == pytest.approx(alone.score, abs=1e-5)
        if not joint:
            assert [view.score for view in match.views] == pytest.approx([view.score for view in alone.views], abs=1e-5)
    if not joint:
        assert len({view.score for view in found[0].views}) == 1 and distinct > 1
        assert len({view.score for view in found[1].views}) == distinct


def test_views_are_drawn_from_one_field_after_the_other(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder(views={"view_tokens": 12, "receptive_field": 7, "receptive_fields": [2, 7]}, graph_layers=0)
    matcher = PairMatcher(encoder)
    text, other = (" ".join(f"The {word} {noun} rises." for word in WORDS) for noun in ("tide", "dough"))

    def last_sentences(name: str, purpose: Purpose) -> list[int]:
        documents = (Document.from_text(text, id=name), Document.from_text(other, id="other"))
        one, two = matcher.documents(map(matcher.segmenter.segment, documents))
        sides = (one.field, one.features), (two.field, two.features)
        views = matcher.sampler.sample(*sides, range(20), purpose).views
        for view, back in zip(views, matcher.sampler.sample(*sides[::-1], range(20), purpose).views, strict=True):
            np.testing.assert_array_equal(view.first.sentences, back.second.sentences)
            np.testing.assert_array_equal(view.second.sentences, back.first.sentences)
        return [max(int(side.sentences.max()) for side in view) for view in views]

    found = last_sentences("one", "matching")
    assert all(last < 2 for last in found[::2])
    assert 4 <= max(found[1::2]) < 7
    # What is matched is compared, so that all pairs begin with the same field; an epoch has pairs of either.
    assert all(last < 2 for number in range(5) for last in last_sentences(str(number), "matching")[::2])
    begun = set()
    for number in range(10):
        found = last_sentences(str(number), "training")
        near = [max(found[start::2]) < 2 for start in (0, 1)]
        assert sorted(near) == [False, True]
        begun.add(near[0])
    assert begun == {False, True}


def test_scores_are_those_of_pairs_matched_one_by_one(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder(views={"view_tokens": 24, "views": 3}, graph_layers=0, readout="mean")
    encoder.model.add_head(["different", "similar"])
    documents = [
        Document.from_text(" ".join(f"The {word} {noun} rises." for word in WORDS[number:]), id=noun)
        for number, noun in enumerate(("tide", "dough", "rice", "sea"))
    ]
    rows = [(number % 4, (number * 7 + 1) % 4) for number in range(9)]
    expected = [encoder.match(documents[a], documents[b]).score for a, b in rows]
    matches = match_pairs(encoder, [(documents[a], documents[b]) for a, b in rows])
    assert [match.score for match in matches] == pytest.approx(expected, abs=1e-5)
    assert MatchedPairs(documents, np.array(rows)).scores(encoder).tolist() == pytest.approx(expected, abs=1e-5)


SPECIAL = SpecialTokens((1,), (2,), (1,), (2,), (2,), 1)
VIEWS = [(np.array([5, 6, 7]), np.array([8])), (np.array([9]), np.array([10, 11]))]


@pytest.fixture
def model(tiny_model: Models) -> DocumentModel:
    """A tiny model that reads types of tokens."""
    return tiny_model("bert", projection_size=None, graph_layers=0, readout="mean", labels=["different", "similar"])


def test_a_cross_reader_puts_both_views_into_one_passage_and_a_dual_one_each_into_its_own() -> None:
    batch = CrossReader(SPECIAL).graphs(VIEWS)
    assert [list(ids) for ids in batch.token_ids] == [[1, 5, 6, 7, 2, 8, 2], [1, 9, 2, 10, 11, 2]]
    assert batch.second_from == (5, 3)
    (mini_batch,) = batch.mini_batches(Packing(1000, 1.0), 0)
    assert mini_batch.token_types is not None
    assert mini_batch.token_types.tolist() == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 0]]
    batch = DualReader(SPECIAL).graphs(VIEWS)
    assert [list(ids) for ids in batch.token_ids] == [[1, 5, 6, 7, 2], [1, 9, 2], [1, 8, 2], [1, 10, 11, 2]]
    assert batch.second_from is None
    assert DualReader(SPECIAL).roles(2) == {"first": slice(2), "second": slice(2, 4)}
    # Views leave room for special tokens.
    for made, longest in ((CrossReader(SPECIAL), 512), (DualReader(SPECIAL), 256)):
        assert (made.room(256), made.longest(256)) == (254, longest)
        assert max(map(len, made.graphs([(np.arange(254), np.arange(254))]).token_ids)) <= longest


def test_types_of_tokens_change_what_is_read(model: DocumentModel) -> None:
    batch = CrossReader(SPECIAL).graphs(VIEWS)
    with torch.no_grad():
        found = model(batch).logits
        transformer = model.passage_encoder.transformer
        for row, (ids, second) in enumerate(zip(batch.token_ids, batch.second_from or (), strict=True)):
            types = torch.tensor([[int(place >= second) for place in range(len(ids))]])
            hidden = transformer(torch.tensor(np.array([ids])), token_type_ids=types).last_hidden_state
            torch.testing.assert_close(model.head(hidden[:, 0])[0], found[row], atol=1e-5, rtol=1e-5)
        alone = transformer(torch.tensor(np.array([batch.token_ids[0]]))).last_hidden_state[:, 0]
    assert not torch.allclose(model.head(alone)[0], found[0], atol=1e-4)


def test_views_that_are_read_at_once_are_one_document(tiny_model: Models) -> None:
    model = tiny_model("bert", projection_size=None, graph_layers=0, readout="attention", labels=["a", "b"])
    batch = CrossReader(SPECIAL).graphs([*VIEWS, *VIEWS[::-1]], views_per_graph=2)
    assert len(batch) == 2
    assert batch.passage_counts == (2, 2)
    with torch.no_grad():
        scores = CrossReader(SPECIAL).scores(model(batch))
    torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=1e-5)
    towers = DualReader(SPECIAL).graphs([*VIEWS, *VIEWS], views_per_graph=2)
    assert [[list(ids) for ids in towers.token_ids[place : place + 2]] for place in (0, 4)] == [
        [[1, 5, 6, 7, 2], [1, 9, 2]], [[1, 8, 2], [1, 10, 11, 2]],
    ]  # fmt: skip


TEXTS = ("rice and koji", "the tide rises over the marsh")


def tokenizer_of(backbone_folder: Backbones, name: str) -> PreTrainedTokenizerBase:
    """A tokenizer that puts special tokens between texts as its kind does."""
    tokenizer = AutoTokenizer.from_pretrained(backbone_folder(name))
    names = (tokenizer.sep_token or tokenizer.eos_token, tokenizer.cls_token or tokenizer.bos_token)
    processor = RobertaProcessing if name == "roberta" else BertProcessing
    ids = [(token, tokenizer.convert_tokens_to_ids(token)) for token in names]
    tokenizer.backend_tokenizer.post_processor = processor(*ids)
    return tokenizer


def check(tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
    special = SpecialTokens.from_tokenizer(tokenizer)
    alone = [np.array(tokenizer(text)["input_ids"]) for text in TEXTS]
    for ids, text in zip(alone, [special.strip(ids) for ids in alone], strict=True):
        np.testing.assert_array_equal(special.wrap(text), ids)
        assert len(ids) == len(text) + special.single_count
    return special


@pytest.mark.parametrize("name", ["bert", "roberta", "mini"])
def test_two_texts_are_put_together_as_the_tokenizer_does(
    backbone_folder: Backbones, mini: DocumentEncoder, name: str
) -> None:
    tokenizer = mini.tokenizer if name == "mini" else tokenizer_of(backbone_folder, name)
    special = check(tokenizer)
    pair = tokenizer(*TEXTS, return_token_type_ids=True)
    ids, second = special.join(*(special.strip(tokenizer(text)["input_ids"]) for text in TEXTS))
    assert ids.tolist() == pair["input_ids"]
    assert special.pair_count == (4 if name == "roberta" else 3)
    if name != "roberta":
        assert [int(place >= second) for place in range(len(ids))] == pair["token_type_ids"]
    assert pair.sequence_ids(0)[second] in (1, None)


def test_texts_that_nothing_stands_between_are_set_apart(backbone_folder: Backbones) -> None:
    tokenizer = AutoTokenizer.from_pretrained(backbone_folder("bert"))
    assert None not in tokenizer(*TEXTS).sequence_ids(0)
    ids, second = check(tokenizer).join(np.array([7, 8]), np.array([9]))
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert ids.tolist() == [cls, 7, 8, sep, 9, sep]
    assert second == 4
