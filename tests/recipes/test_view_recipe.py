"""Runs on views of pairs: what they leave, how they go on, which views they read, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import Backbones, Encoders, Patch
from view_examples import data_of, documents, finetune_views, pool_of, start_of, view_overrides

from graphdoc import DocumentEncoder, read_documents
from graphdoc.checkpoints.contents import SUBTOPIC_FOLDER
from graphdoc.corpus import view_pool
from graphdoc.corpus.view_pool import ViewPool
from graphdoc.errors import GraphdocError, OutputError
from graphdoc.evaluation.pair_scores import pair_auc
from graphdoc.inference.learned_subtopics import AdaptiveSubtopics, subtopic_finder
from graphdoc.recipes.views import ViewRecipe
from graphdoc.sampling.views import SentenceLikelihoods
from graphdoc.segmentation.terms import TermMaker
from graphdoc.settings.document import ClusteringSettings


@pytest.fixture
def overrides(backbone_folder: Backbones, tmp_path: Path) -> list[str]:
    return view_overrides(tmp_path, backbone_folder("bert"))


@pytest.fixture
def finetune(overrides: list[str], tmp_path: Path) -> Callable[..., int]:
    return finetune_views(tmp_path, overrides)


def test_a_run_leaves_a_model_that_matches_and_has_no_vectors_of_one_document(
    finetune: Callable[..., int], tmp_path: Path, mini: DocumentEncoder
) -> None:
    assert finetune("run", f"validation.pairs={tmp_path / 'pairs.tsv'}") == 0
    run = tmp_path / "run"
    results, record = (json.loads((run / f"{name}.json").read_text(encoding="utf-8")) for name in ("results", "record"))
    assert {"pair_auc", "pair_f1", "pair_accuracy"} <= results["before"].keys() == results["after"].keys()
    expected = {"pairs": 28, "similar": 12, "views_of_a_pair": 2, "sentences_beyond_field": 16}
    assert expected.items() <= record["corpus"].items()

    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    assert encoder.model.config.labels == ["different", "similar"]
    assert encoder.model.config.matching is not None
    assert encoder.model.config.matching.receptive_field == 12
    first, second = texts()
    match = encoder.match(first, second)
    assert match.score == max(view.score for view in match.views if view.score is not None)
    assert len(match.views) == 3
    assert match.beyond == (2, 2)
    assert match.probability == pytest.approx(1 / (1 + np.exp(-match.score)))
    assert encoder.match(first, second, aggregation="mean").score == pytest.approx(
        np.mean([view.score for view in match.views])
    )
    assert len(encoder.match(first, second, views=5).views) == 5
    assert match.to_dict()["views"][0]["a"] == list(match.views[0].a)
    # What is measured is what the model gives.
    there = {document.id: document for document in read_documents(tmp_path / "corpus.jsonl")}
    lines = [line.split("\t") for line in (tmp_path / "pairs.tsv").read_text().splitlines()]
    scores = [encoder.match(there[a], there[b]).score for a, b, _ in lines]
    expected = pair_auc([int(label) for _, _, label in lines], scores)
    assert results["after"]["pair_auc"] == pytest.approx(expected)
    for use in (
        lambda: encoder.encode([first]),
        lambda: encoder.compare(first, second),
        lambda: encoder.attention(first),
        lambda: list(encoder.stream([first], level="sentence")),
        lambda: mini.match(first, second),
    ):
        with pytest.raises(GraphdocError, match=r"match|finetune views"):
            use()


def test_two_towers_are_trained_on_pairs(finetune: Callable[..., int], tmp_path: Path) -> None:
    assert finetune("run", "views.encoder=dual", "loss.kind=cosine", "training.epochs=1") == 0
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    first, second = texts()
    match = encoder.match(first, second)
    assert -1 <= match.score <= 1 and match.probability is None
    assert match.score == pytest.approx(np.mean([view.score for view in match.views]))
    # A dual encoder has vectors of single documents as well.
    assert encoder.encode([first]).shape == (1, 24)


def test_every_epoch_reads_another_view_and_has_pairs_of_every_field(overrides: list[str]) -> None:
    def batches(*options: str) -> list[dict[str, tuple[int, ...]]]:
        data = data_of(overrides, "training.batch_size=28", *options)
        return [
            {id: tuple(map(int, ids)) for id, ids in zip(batch.ids, batch.graphs.token_ids, strict=True)}
            for batch in data.loader.batches()
        ]

    first, second = batches()
    assert first.keys() == second.keys()
    assert sum(first[id] != second[id] for id in first) > 20
    # Of a pool of one view all epochs read the same.
    assert batches("pool=1") == [first, first]
    pool = pool_of(data_of(overrides, "views.receptive_fields=[3,12]"))
    views = [pool.view(pair, number) for pair in range(28) for number in range(2)]
    last = np.array([max(int(side.sentences.max()) for side in view) for view in views]).reshape(28, 2)
    # Of the two views of a pair one is of the first three sentences; it is the first one of some pairs, not of all.
    near = last < 3
    assert near.any(axis=1).all() and (~near).sum(axis=0).min() > 4 and (last < 12).all()


def test_views_read_at_once_make_one_score(finetune: Callable[..., int], tmp_path: Path, overrides: list[str]) -> None:
    data = data_of(overrides, "views.joint=true", "model.settings.readout=attention")
    assert next(iter(data.loader.batches())).graphs.passage_counts == (3,) * 7
    assert len(data.pairs.pairs) == 28
    assert finetune("run", "views.joint=true", "model.settings.readout=attention") == 0
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    match = encoder.match("Rice is steamed. Koji grows.", "Tides rise. The sea is deep.")
    assert [view.score for view in match.views] == [None] * 3
    with pytest.raises(GraphdocError, match="views=5"):
        encoder.match("Rice is steamed.", "Tides rise.", views=5)


def test_negatives_are_of_the_same_first_document(overrides: list[str]) -> None:
    data = data_of(
        overrides, "views.encoder=dual", "loss={kind: contrast, negatives_per_pair: 2}", "training.batch_size=5"
    )
    collate = data.loader._options["collate_fn"]
    labels, rows = data.pairs.labels, data.pairs.rows
    batch = next(iter(data.loader.batches()))
    queries, candidates = batch.roles["query"], batch.roles["candidate"]
    assert queries == slice(5)
    drawn = {number: collate.sampled_negatives(number, 0) for number in np.flatnonzero(labels == 1).tolist()}
    assert any(len(own) == 2 for own in drawn.values())
    for number, own in drawn.items():
        assert all(rows[other, 0] == rows[number, 0] and labels[other] == 0 for other in own)
    assert candidates.stop - candidates.start == len(batch.targets["group"])
    # Every answer is among the candidates, and known as one.
    for row, positive in enumerate(batch.targets["positive"].tolist()):
        assert batch.targets["group"][positive] in batch.targets["answers"][row]


def test_a_pool_does_not_depend_on_workers_or_on_an_interruption(overrides: list[str], monkeypatch: Patch) -> None:
    monkeypatch.setattr(view_pool, "PART_PAIRS", 8)
    monkeypatch.setattr(view_pool, "BLOCK_PAIRS", 3)
    monkeypatch.setattr(view_pool, "MANY_PAIRS", 1)
    pool = pool_of(data_of(overrides, "corpus.preparing_processes=1"))
    parts = sorted(pool.folder.glob("part-*.npy"))
    assert len(parts) == 4
    expected = [path.read_bytes() for path in parts]
    views_before = [pool.view(pair, number) for pair in range(28) for number in range(2)]

    # A part without its mark was written by a run that ended before it was done.
    (pool.folder / ".part-00002.npy.checked").unlink()
    parts[3].unlink()
    parts[2].write_bytes(b"half")
    stamps = [path.stat().st_mtime_ns for path in parts[:2]]
    again = pool_of(data_of(overrides, "corpus.preparing_processes=2"))
    assert again.folder == pool.folder
    assert [path.read_bytes() for path in parts] == expected
    assert [path.stat().st_mtime_ns for path in parts[:2]] == stamps
    for view, (pair, number) in zip(views_before, [(p, n) for p in range(28) for n in range(2)], strict=True):
        for side, other in zip(view, again.view(pair, number), strict=True):
            assert np.array_equal(side.sentences, other.sentences) and np.array_equal(side.tokens, other.tokens)
    assert (pool.subtopics(3).first, len(pool.subtopics(3).clusters)) == (12, 24)


def test_another_way_to_draw_has_another_pool(overrides: list[str], learned: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(learned, tmp_path / "moved")
    adaptive = ("views.subtopics=adaptive", "views.subtopic_model={}")
    folders = [
        pool_of(data_of(overrides, *options)).folder
        for options in (
            (), ("views.sampling=hard",), ("views.cluster_size=6",), ("pool=5",),
            ("views.receptive_fields=[4]",), (adaptive[0], adaptive[1].format(learned)),
        )
    ]  # fmt: skip
    assert len(set(folders)) == 6
    # Neither where a model lies nor how one is measured later has a say in it.
    assert pool_of(data_of(overrides, adaptive[0], adaptive[1].format(moved))).folder == folders[-1]
    pool = pool_of(data_of(overrides, "views.views=7"))
    assert pool.folder == folders[0]
    # A damaged part is made again.
    (part,) = pool.folder.glob("part-*.npy")
    content = part.read_bytes()
    part.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    data_of(overrides)
    assert part.read_bytes() == content


def test_judgements_and_hits_make_pairs(overrides: list[str], tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("d0 0 d2 1\nd0 0 d1 0\nd1 0 d3 2\nd5 0 d1 0\n", encoding="utf-8")
    hits = [("d0", "d1"), ("d0", "d4"), ("d0", "d2"), ("d0", "d0"), ("d1", "d6"), ("d1", "d7"), ("d5", "d2")]
    lines = [f"{query} Q0 {hit} {rank} {-rank} first\n" for rank, (query, hit) in enumerate(hits, start=1)]
    (tmp_path / "first.run").write_text("".join(lines), encoding="utf-8")
    options = ("pairs.file=null", f"pairs.qrels={tmp_path / 'qrels.txt'}", f"pairs.run={tmp_path / 'first.run'}")
    data = data_of(overrides, *options, "training.batch_size=2")
    found = {(pair.a, pair.b): pair.label for pair in data.pairs.pairs}
    # What is judged irrelevant is no negative from the hits, and d5 has nothing that is relevant.
    assert found == {("d0", "d2"): 1, ("d1", "d3"): 1, ("d0", "d4"): 0, ("d1", "d6"): 0, ("d1", "d7"): 0}
    shallow = data_of(overrides, *options, "pairs.depth=1", "training.batch_size=2", "pairs.least_grade=2")
    assert {(pair.a, pair.b): pair.label for pair in shallow.pairs.pairs} == {("d1", "d3"): 1, ("d1", "d6"): 0}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["model.settings.graph_layers=1"], "model.settings.graph_layers=1"),
        (["views.view_tokens=60"], "views.view_tokens=60"),
        (["pairs.file=nowhere.tsv"], "nowhere.tsv"),
        (["views.subtopics=adaptive"], "adaptive"),
        (["views.subtopics=adaptive", "views.subtopic_model=mini"], "mini"),
        (["views.subtopics=vectors", "views.subtopic_model=nowhere/"], "nowhere"),
        (["views.sampling=best"], "views.sampling='best'"),
        (["pool=5", "pool_range=1"], "pool_range=1"),
        (["pool=5", "pool_range=6"], "pool_range=6"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(overrides: list[str], options: list[str], named: str) -> None:
    with pytest.raises(GraphdocError, match=re.escape(named)):
        ViewRecipe.from_run(start_of(overrides, *options))


def test_a_pool_in_order_is_read_range_by_range(overrides: list[str]) -> None:
    options = ("pool=12", "training.epochs=3", "training.batch_size=28")
    drawn, ordered = (pool_of(data_of(overrides, *options, f"pool_range={one}")) for one in ("null", 12))
    assert drawn.folder != ordered.folder
    data = data_of(overrides, *options, "pool_range=9")
    assert pool_of(data).folder == ordered.folder
    terms, rows = TermMaker("en"), data.pairs.rows
    texts = dict(data._texts_of(np.unique(rows)))
    likely = {
        row: SentenceLikelihoods.from_sentences([[one.term for one in terms.placed(text)] for text in own])
        for row, own in texts.items()
    }

    def of_pair(pool: ViewPool, pair: int) -> list[float]:
        sides = [likely[row] for row in rows[pair].tolist()]
        views = (pool.view(pair, number) for number in range(12))
        return [sum(side.of_view(view.sentences) for side, view in zip(sides, one, strict=True)) for one in views]

    for pair in range(28):
        found = of_pair(ordered, pair)
        assert found == sorted(found, reverse=True)
        assert sorted(of_pair(drawn, pair)) == pytest.approx(sorted(found))
        np.testing.assert_array_equal(ordered.subtopics(pair).clusters, drawn.subtopics(pair).clusters)

    # Of nine views three ranges of three, and of each every pair reads one of its own.
    settings = data.loader._options["collate_fn"]
    read = [[settings.view_numbers(pair, epoch)[0] for pair in range(28)] for epoch in range(4)]
    assert [set(numbers) for numbers in read[:3]] == [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}]
    assert set(read[3]) == {0, 1, 2}
    assert read == [[settings.view_numbers(pair, epoch)[0] for pair in range(28)] for epoch in range(4)]


@pytest.fixture
def learned(tmp_path: Path, tiny_encoder: Encoders) -> Path:
    """A folder of a model with a head for subtopics."""
    source = tiny_encoder("roberta", projection_size=None, graph_layers=1, readout="initial_mean", pooling="mean")
    source.model.add_subtopic_head(ClusteringSettings(columns=6, neighbours=5, receptive_field=12, cluster_size=4))
    return source.save_pretrained(tmp_path / "learned")


def texts() -> list[str]:
    return [" ".join(row["sections"]) for row in documents()[:2]]


@pytest.mark.parametrize("way", ["adaptive", "vectors"])
def test_views_are_drawn_by_subtopics_of_a_model(
    overrides: list[str], learned: Path, monkeypatch: Patch, way: str
) -> None:
    # Many pairs are drawn by forked processes, into which no model goes.
    monkeypatch.setattr(view_pool, "MANY_PAIRS", 1)
    options = (f"views.subtopics={way}", f"views.subtopic_model={learned}", "corpus.preparing_processes=2")
    data = data_of(overrides, *options)
    pool, rows = pool_of(data), data.pairs.rows
    found = dict(data._texts_of(np.unique(rows)))
    for pair in (0, 9):
        fields = [found[row][:12] for row in rows[pair].tolist()]
        if way == "adaptive":
            finder: Any = AdaptiveSubtopics.make("en", learned)
            expected = finder.find(*map(finder.features, fields), cluster_size=4)
        else:
            source = DocumentEncoder.from_pretrained(learned, device="cpu")
            vectors = [source.encode(list(field)) for field in fields]
            expected = subtopic_finder("vectors", "en").find(*vectors, cluster_size=4)
        np.testing.assert_array_equal(pool.subtopics(pair).clusters, expected.clusters)
    assert len({pool.subtopics(pair).number for pair in range(28)} | {2}) > 1


@pytest.mark.parametrize("way", ["adaptive", "vectors"])
def test_the_model_of_subtopics_is_in_the_checkpoint(
    finetune: Callable[..., int], learned: Path, tmp_path: Path, tiny_encoder: Encoders, way: str
) -> None:
    options = (f"views.subtopics={way}", f"views.subtopic_model={learned}", "training.max_steps=4")
    assert finetune("run", *options) == 0
    first, second = texts()

    def match(folder: Path) -> Any:
        return DocumentEncoder.from_pretrained(folder, device="cpu").match(first, second).to_dict()["views"]

    expected = match(tmp_path / "run" / "model")
    # Nothing outside the checkpoint is read, and checkpoints of a run are checkpoints like others.
    shutil.rmtree(learned)
    moved = (tmp_path / "run" / "model").rename(tmp_path / "moved")
    assert match(moved) == match(tmp_path / "run" / "checkpoint-4") == expected
    # It goes along where the model is saved again, over itself too.
    saved = DocumentEncoder.from_pretrained(moved, device="cpu").save_pretrained(tmp_path / "saved")
    shutil.rmtree(moved)
    DocumentEncoder.from_pretrained(saved, device="cpu").save_pretrained(saved)
    assert match(saved) == expected
    # Another model saved over it leaves none behind; a folder of that name which holds something else stays.
    tiny_encoder("roberta").save_pretrained(saved)
    assert not (saved / SUBTOPIC_FOLDER).exists()
    (saved / SUBTOPIC_FOLDER).mkdir()
    (saved / SUBTOPIC_FOLDER / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=SUBTOPIC_FOLDER):
        tiny_encoder("roberta").save_pretrained(saved)
    assert (saved / SUBTOPIC_FOLDER / "notes.txt").read_text() == "mine"
