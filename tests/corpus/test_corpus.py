from __future__ import annotations

import json
import logging
import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_examples import SettingsFactory, rows_of, text_of, write_rows
from tokenizers import normalizers
from training_fixtures import Prepare
from typed import Log, Patch

from graphdoc.corpus import corpus as corpus_module
from graphdoc.corpus import document as corpus_document
from graphdoc.corpus.corpus import TrainingCorpus
from graphdoc.corpus.document import CorpusReport
from graphdoc.corpus.source import CorpusSource
from graphdoc.documents.document import Document
from graphdoc.documents.parsing.rows import Columns
from graphdoc.errors import DocumentError, OutputError
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter


def ids_of(corpus: TrainingCorpus) -> list[str]:
    return [corpus[number].id for number in range(len(corpus))]


class TestContent:
    def test_documents_hold_the_tokens_of_the_segmenter(
        self, prepare: Prepare, segmenter: Segmenter, monkeypatch: Patch
    ) -> None:
        monkeypatch.setattr(corpus_module, "BATCH_DOCUMENTS", 5)
        corpus = prepare(max_passages=4)
        rows = [row for number, row in enumerate(rows_of(40)) if number % 10]
        limited = Segmenter(segmenter.tokenizer, replace(segmenter.config, max_passages=4))
        assert len(corpus) == len(rows)
        for number, row in enumerate(rows):
            expected = limited.segment(Document.from_mapping(row))
            document = corpus[number]
            assert document.id == row["id"]
            assert len(document) == corpus.passage_counts[number] == len(expected.passages)
            assert tuple(tuple(ids.tolist()) for ids in document.token_ids) == expected.token_ids
            assert document.sections.tolist() == [passage.section for passage in expected.passages]
            assert all(ids.dtype == np.int32 and ids.flags.writeable for ids in document.token_ids)
        assert corpus[-1].id == rows[-1]["id"]
        with pytest.raises(IndexError):
            corpus[len(rows)]

    def test_report_counts_everything(self, prepare: Prepare, segmenter: Segmenter, caplog: Log) -> None:
        with caplog.at_level(logging.INFO, "graphdoc"):
            corpus = prepare(max_passages=4)
        report = corpus.report
        passages = [len(segmenter.segment(Document.from_mapping(row)).passages) for row in rows_of(40)]
        kept = [count for count in passages if count >= 2]
        assert (report.documents, report.kept, report.too_short) == (40, 36, 4)
        assert report.passages == sum(min(count, 4) for count in kept) == corpus.passage_counts.sum()
        assert report.passages_cut == sum(max(count - 4, 0) for count in kept) > 0
        assert report.documents_cut == sum(count > 4 for count in kept)
        specials = segmenter.tokenizer.num_special_tokens_to_add()
        tokens = [len(ids) - specials for number in range(len(corpus)) for ids in corpus[number].token_ids]
        assert report.coverage.encoded_tokens == sum(tokens)
        assert set(report.coverage.left_out) == {"passage limit"}
        (record,) = caplog.records
        assert "36 of 40" in record.message
        assert CorpusReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report

    def test_labels_and_splits_are_kept_beside_the_tokens(self, prepare: Prepare, tmp_path: Path) -> None:
        labels = ["rice", 3, ["rice", "tea"], [], None]
        rows = [{"id": str(n), "text": f"Text number {n}.", "label": label} for n, label in enumerate(labels)]
        rows[1]["split"] = "test"
        corpus = prepare(source=str(write_rows(tmp_path / "labelled.jsonl", rows)), least_passages=1)
        assert corpus.labels == ["rice", 3, ("rice", "tea"), (), None]
        assert corpus.splits == [None, "test", None, None, None]

    def test_sections_are_left_out_by_their_headings(self, prepare: Prepare, tmp_path: Path) -> None:
        texts = ["What it is about.", "What was done in the end."]
        sections = [{"heading": heading, "text": text} for heading, text in zip(("Abstract", "1"), texts, strict=True)]
        rows = [{"id": "both", "sections": sections}, {"id": "one", "sections": sections[1:]},
                {"id": "none", "sections": sections[:1]}]  # fmt: skip
        source = str(write_rows(tmp_path / "papers.jsonl", rows))
        made = partial(prepare, source=source, least_passages=1, deduplicate=False)
        corpus = made(leave_out_sections=["abstract"])
        assert corpus.ids == ["both", "one"]
        assert all(np.array_equal(a, b) for a, b in zip(corpus[0].token_ids, corpus[1].token_ids, strict=True))
        assert corpus.report.too_short == 1
        assert made().ids == ["both", "one", "none"]
        with pytest.raises(DocumentError, match="Summary"):
            made(leave_out_sections=["Summary"])

    def test_first_sentences_are_left_out(self, prepare: Prepare, tmp_path: Path) -> None:
        texts = ["Rice is steamed. Koji grows. It is warm.", "Koji grows. It is warm.", "Rice is steamed."]
        rows = [{"id": id, "text": text} for id, text in zip("abc", texts, strict=True)]
        options = {"source": str(write_rows(tmp_path / "a.jsonl", rows)), "least_passages": 1, "deduplicate": False}
        whole, short = (prepare(**options, without_first_sentence=one) for one in (False, True))
        assert (whole.ids, short.ids, short.report.too_short) == (["a", "b", "c"], ["a", "b"], 1)
        assert np.array_equal(short[0].token_ids[0], whole[1].token_ids[0])
        assert short.fingerprint != whole.fingerprint


class TestWhatIsRead:
    def test_copies_and_other_splits_are_left_out_and_counted(self, prepare: Prepare, tmp_path: Path) -> None:
        rows = rows_of(10)
        copies = [{**rows[3], "id": "copy", "title": "Another"}, {**rows[0], "id": "short copy"}]
        source = write_rows(tmp_path / "copies.jsonl", [*rows, *copies, rows[3]])
        report = prepare(source=str(source)).report
        assert (report.documents, report.kept, report.too_short, report.duplicates) == (13, 9, 1, 3)
        kept = prepare(source=str(source), deduplicate=False)
        assert (kept.report.kept, kept.report.too_short, kept.report.duplicates) == (11, 2, 0)
        groups = {kept[number].id: kept[number].group for number in range(len(kept))}
        assert groups["copy"] == groups["d3"]
        assert len(set(groups.values())) == 9
        parts = [{"id": str(n), "text": text_of(2, n), "split": ("train", "dev", "Test")[n % 3]} for n in range(9)]
        made = partial(prepare, source=str(write_rows(tmp_path / "parts.jsonl", parts)))
        train = made(leave_out_splits=["Dev", "tset", "test"])
        assert train.ids == ["0", "3", "6"]
        assert train.report.splits_left_out == {"Dev": 3, "test": 3, "tset": 0}
        assert not made(leave_out_splits=["validation"]).report.splits_left_out

    def test_columns_and_folders(self, prepare: Prepare, tmp_path: Path) -> None:
        write_rows(tmp_path / "in" / "a.jsonl", [{"key": 7, "body": text_of(3, 1)}])
        (tmp_path / "in" / "b.md").write_text(f"# Head\n\n{text_of(2, 2)}\n", encoding="utf-8")
        (tmp_path / "in" / "c.weights").write_bytes(b"x")
        columns = Columns(text="body", id="key")
        sources = str(tmp_path / "in"), str(tmp_path / "in" / "[ab]*")
        corpora = [prepare(source=source, columns=columns) for source in sources]
        assert [ids_of(corpus) for corpus in corpora] == [["7", "b"]] * 2
        assert corpora[0].report.ignored == 1
        (tmp_path / "in" / "b2.md").write_text(text_of(2, 3), encoding="utf-8")
        assert [len(prepare(source=source, columns=columns)) for source in sources] == [3, 3]

    def test_what_cannot_be_read_stops_or_is_skipped_and_named(self, prepare: Prepare, tmp_path: Path) -> None:
        paths = [str(write_rows(tmp_path / f"{part}.jsonl", rows_of(30)[part * 10 :][:10])) for part in range(3)]
        Path(paths[1]).write_text("{broken\n" * 25, encoding="utf-8")
        with pytest.raises(DocumentError, match=r"1\.jsonl:1"):
            prepare(source=paths)
        assert list((tmp_path / "cache" / "corpora").iterdir()) == []
        corpus = prepare(source=paths, on_error="skip")
        assert (len(corpus), corpus.report.errors) == (18, 25)
        assert [entry.source for entry in corpus.report.first_errors] == [f"{paths[1]}:{n}" for n in range(1, 11)]
        assert paths[1] in corpus.report.summary()

    @pytest.mark.parametrize(
        ("rows", "changes", "named"),
        [
            ([], {}, "in.jsonl"),
            ([{"text": "It is short."}] * 3, {"deduplicate": False}, "3 documents of too few"),
            ([{"text": text_of(2, 1)}], {"source": "missing.jsonl"}, "missing.jsonl"),
        ],
    )
    def test_nothing_to_train_on_is_named(
        self, prepare: Prepare, tmp_path: Path, rows: Any, changes: Any, named: str
    ) -> None:
        source = write_rows(tmp_path / "in.jsonl", rows)
        with pytest.raises(DocumentError, match=named):
            prepare(**{"source": str(source), **changes})
        assert not list((tmp_path / "cache").glob("corpora/*"))


class TestCache:
    def test_a_corpus_is_used_again_unread(self, prepare: Prepare, segmenter: Segmenter, monkeypatch: Patch) -> None:
        first = prepare()
        monkeypatch.setattr(CorpusSource, "documents", lambda *_: pytest.fail("the documents are read again"))
        # The state of a tokenizer does not matter.
        tokenizer = pickle.loads(pickle.dumps(segmenter.tokenizer))
        tokenizer(["a", "b c d"], padding=True, truncation=True, max_length=8)
        again = prepare(Segmenter(tokenizer, segmenter.config), preparing_processes=2)
        assert again.folder == first.folder and again.report == first.report

    def test_other_settings_texts_or_tokens_make_another_corpus(
        self, prepare: Prepare, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        before = prepare()
        tokenizer = pickle.loads(pickle.dumps(segmenter.tokenizer))
        tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
        longer = Segmenter(segmenter.tokenizer, SegmentationConfig(passage_words=30, max_tokens=64))
        others = [
            prepare(cutter, **changes).fingerprint
            for changes, cutter in (
                ({"least_passages": 3}, segmenter), ({"deduplicate": False}, segmenter),
                ({"max_passages": 4}, segmenter), ({"columns": Columns(title="heading")}, segmenter),
                ({}, longer), ({}, Segmenter(tokenizer, segmenter.config)),
            )
        ]  # fmt: skip
        assert len({before.fingerprint, *others}) == 7
        source = tmp_path / "corpus.jsonl"
        os.utime(source, ns=(0, 1))
        assert prepare().fingerprint == before.fingerprint
        # The same size and time.
        source.write_bytes(source.read_bytes().replace(b" the ", b" and "))
        os.utime(source, ns=(0, 1))
        after = prepare()
        assert after.fingerprint != before.fingerprint and after.content != before.content

    def test_an_interruption_leaves_nothing(self, prepare: Prepare, tmp_path: Path, monkeypatch: Patch) -> None:
        monkeypatch.setattr(corpus_module, "BATCH_DOCUMENTS", 2)
        monkeypatch.setattr(corpus_document, "BLOCK_DOCUMENTS", 4)
        real = CorpusSource.documents

        def interrupted(self: CorpusSource, report: CorpusReport) -> Iterator[Any]:
            for number, entry in enumerate(real(self, report)):
                if number == 20:
                    (folder,) = (tmp_path / "cache" / "corpora").iterdir()
                    assert folder.name.startswith(".partial-") and list(folder.iterdir())
                    raise KeyboardInterrupt
                yield entry

        monkeypatch.setattr(CorpusSource, "documents", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare()
        assert list((tmp_path / "cache" / "corpora").iterdir()) == []
        monkeypatch.setattr(CorpusSource, "documents", real)
        assert len(prepare()) == 36

    def test_damage_is_found_whatever_the_time_of_a_file_says(self, prepare: Prepare, tmp_path: Path) -> None:
        folder = prepare().folder
        path = folder / "documents.arrow"
        status, content = path.stat(), path.read_bytes()
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (content[:-100], bytes(len(content)), changed):
            path.write_bytes(damaged)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            with pytest.raises(OutputError, match=f"{path.name}.*remove .*{folder.name}"):
                prepare()
        path.write_bytes(content)
        assert len(prepare()) == 36
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        for text in (
            "{",
            json.dumps(manifest | {"report": {"colour": 1}}),
            json.dumps(manifest | {"format_version": 1}),
        ):
            (folder / "manifest.json").write_text(text, encoding="utf-8")
            with pytest.raises(OutputError, match=folder.name):
                TrainingCorpus(folder)
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(OutputError, match="file"):
            prepare(cache=str(tmp_path / "file"))

    def test_what_a_killed_run_left_is_removed_after_a_day(self, prepare: Prepare, tmp_path: Path) -> None:
        corpora = tmp_path / "cache" / "corpora"
        for name, age in (("old", corpus_module.ABANDONED_AFTER_SECONDS + 60), ("new", 60)):
            folder = corpora / f".partial-elsewhere-1-{name}"
            folder.mkdir(parents=True)
            (folder / "documents.arrow").write_bytes(b"half")
            # Parts of vectors are files.
            (corpora / f".partial-1-{name}.npy").write_bytes(b"half")
            for path in (folder / "documents.arrow", folder, corpora / f".partial-1-{name}.npy"):
                os.utime(path, (time.time() - age,) * 2)
        kept = {prepare().fingerprint, ".partial-elsewhere-1-new", ".partial-1-new.npy"}
        assert {path.name for path in corpora.iterdir()} == kept

    def test_a_corpus_that_another_job_has_finished_meanwhile_is_taken(
        self, prepare: Prepare, settings: SettingsFactory, monkeypatch: Patch
    ) -> None:
        real = CorpusSource.documents

        def overtaken(self: CorpusSource, report: CorpusReport) -> Iterator[Any]:
            monkeypatch.setattr(CorpusSource, "documents", real)
            prepare(cache=str(other))
            (other / "corpora").rename(settings().corpora_folder.parent / "moved")
            (finished,) = (settings().corpora_folder.parent / "moved").iterdir()
            finished.rename(settings().corpora_folder / finished.name)
            yield from real(self, report)

        other = settings().corpora_folder.parent.parent / "other"
        monkeypatch.setattr(CorpusSource, "documents", overtaken)
        corpus = prepare()
        assert len(corpus) == 36
        assert [path.name for path in corpus.folder.parent.iterdir()] == [corpus.fingerprint]
