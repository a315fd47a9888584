from __future__ import annotations

import gzip
import json
import logging
import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from corpus_examples import SettingsFactory, rows_of, text_of, write_rows
from tokenizers import normalizers
from torch.utils.data import DataLoader

from graphdoc.corpus import corpus as corpus_module
from graphdoc.corpus import document as corpus_document
from graphdoc.corpus.corpus import TrainingCorpus, prepare_corpus
from graphdoc.corpus.document import CorpusReport
from graphdoc.corpus.source import CorpusSource
from graphdoc.documents.document import Document
from graphdoc.documents.parsing.rows import Columns
from graphdoc.errors import DocumentError, OutputError
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter
from graphdoc.settings.run import CorpusSettings


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".checked"}


def ids_of(corpus: TrainingCorpus) -> list[str]:
    return [corpus[number].id for number in range(len(corpus))]


def files_of(folder: Path, *, name: str = "corpus") -> list[str]:
    """Three compressed files of ten documents each."""
    rows = rows_of(30)
    paths = []
    for part in range(3):
        path = folder / f"{name}-{part}.jsonl.gz"
        content = "".join(json.dumps(row) + "\n" for row in rows[part * 10 : part * 10 + 10])
        path.write_bytes(gzip.compress(content.encode()))
        paths.append(str(path))
    return paths


class TestContent:
    def test_documents_hold_the_tokens_of_the_segmenter(
        self, settings: SettingsFactory, segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(corpus_module, "BATCH_DOCUMENTS", 5)
        monkeypatch.setattr(corpus_module, "SHARD_TOKENS", 1000)
        corpus = prepare_corpus(settings(max_passages=4), segmenter)
        assert len(list(corpus.folder.glob("shard-*.arrow"))) > 2
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

    def test_report_counts_everything(
        self, settings: SettingsFactory, segmenter: Segmenter, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "graphdoc"):
            corpus = prepare_corpus(settings(max_passages=4), segmenter)
        report = corpus.report
        passages = [len(segmenter.segment(Document.from_mapping(row)).passages) for row in rows_of(40)]
        kept = [count for count in passages if count >= 2]
        assert (report.documents, report.kept, report.too_short) == (40, 36, 4)
        assert report.passages == sum(min(count, 4) for count in kept) == corpus.passage_counts.sum()
        assert report.passages_cut == sum(max(count - 4, 0) for count in kept) > 0
        assert report.documents_cut == sum(count > 4 for count in kept)
        specials = segmenter.tokenizer.num_special_tokens_to_add()
        tokens = [len(ids) - specials for number in range(len(corpus)) for ids in corpus[number].token_ids]
        assert report.tokens == sum(tokens)
        assert set(report.coverage.left_out) == {"passage limit"}
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "36 of 40" in record.message
        assert CorpusReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report

    def test_result_does_not_depend_on_the_number_of_processes(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(corpus_document, "BLOCK_DOCUMENTS", 3)
        corpora = [
            prepare_corpus(settings(preparing_processes=count, cache=str(tmp_path / str(count))), segmenter)
            for count in (1, 2, 3)
        ]
        assert contents(corpora[0].folder) == contents(corpora[1].folder) == contents(corpora[2].folder)
        assert len({corpus.fingerprint for corpus in corpora}) == 1

    def test_shards_open_as_a_data_set(self, settings: SettingsFactory, segmenter: Segmenter) -> None:
        corpus = prepare_corpus(settings(), segmenter)
        rows = datasets.Dataset.from_file(str(corpus.folder / "shard-00000.arrow"))
        assert rows.column_names == ["id", "group", "label", "split", "sections", "token_ids", "paragraphs"]
        assert rows[3]["token_ids"] == [ids.tolist() for ids in corpus[3].token_ids]

    def test_labels_and_splits_are_kept_beside_the_tokens(self, segmenter: Segmenter, tmp_path: Path) -> None:
        labels = ["rice", 3, ["rice", "tea"], [], None]
        rows = [{"id": str(n), "text": f"Text number {n}.", "label": label} for n, label in enumerate(labels)]
        rows[1]["split"] = "test"
        source = tmp_path / "labelled.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        corpus = prepare_corpus(
            CorpusSettings(source=str(source), least_passages=1, cache=str(tmp_path), preparing_processes=1), segmenter
        )
        assert corpus.labels == ["rice", 3, ("rice", "tea"), (), None]
        assert corpus.splits == [None, "test", None, None, None]

    def test_documents_of_other_splits_are_left_out_and_counted(self, segmenter: Segmenter, tmp_path: Path) -> None:
        rows = [
            {"id": str(n), "text": f"Text number {n}.", "split": ("train", "dev", "test")[n % 3]} for n in range(9)
        ]
        source = tmp_path / "parts.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings = CorpusSettings(source=str(source), least_passages=1, cache=str(tmp_path), preparing_processes=1)
        corpus = prepare_corpus(settings.replace(leave_out_splits=["Dev", "tset", "test"]), segmenter)
        assert ids_of(corpus) == ["0", "3", "6"]
        assert corpus.report.splits_left_out == {"Dev": 3, "test": 3, "tset": 0}
        without = prepare_corpus(settings.replace(leave_out_splits=["validation"]), segmenter)
        assert not without.report.splits_left_out
        assert prepare_corpus(settings, segmenter).fingerprint != corpus.fingerprint

    def test_sections_are_left_out_by_their_headings(self, segmenter: Segmenter, tmp_path: Path) -> None:
        texts = ["What it is about.", "What was done in the end."]
        sections = [{"heading": heading, "text": text} for heading, text in zip(("Abstract", "1"), texts, strict=True)]
        rows = [{"id": "both", "sections": sections}, {"id": "one", "sections": sections[1:]},
                {"id": "none", "sections": sections[:1]}]  # fmt: skip
        source = str(write_rows(tmp_path / "papers.jsonl", rows))
        options = {"source": source, "least_passages": 1, "deduplicate": False, "preparing_processes": 1}
        settings = CorpusSettings(**options, cache=str(tmp_path), leave_out_sections=["abstract"])
        corpus = prepare_corpus(settings, segmenter)
        assert corpus.ids == ["both", "one"]
        assert all(np.array_equal(a, b) for a, b in zip(corpus[0].token_ids, corpus[1].token_ids, strict=True))
        assert corpus.report.too_short == 1
        assert prepare_corpus(settings.replace(leave_out_sections=[]), segmenter).ids == ["both", "one", "none"]
        with pytest.raises(DocumentError, match="Summary"):
            prepare_corpus(settings.replace(leave_out_sections=["Summary"]), segmenter)

    def test_first_sentences_are_left_out(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        texts = {
            "a": "Rice is steamed. Koji grows. It is warm.",
            "b": "Koji grows. It is warm.",
            "c": "Rice is steamed.",
        }
        rows = [{"id": id, "text": text} for id, text in texts.items()]
        made = settings(source=str(write_rows(tmp_path / "a.jsonl", rows)), least_passages=1, deduplicate=False)
        whole = prepare_corpus(made, segmenter)
        short = prepare_corpus(made.replace(leave_out_first_sentence=True), segmenter)
        assert (whole.ids, short.ids) == (["a", "b", "c"], ["a", "b"])
        assert np.array_equal(short[0].token_ids[0], whole[1].token_ids[0])
        assert short.report.too_short == 1
        assert short.fingerprint != whole.fingerprint

    def test_large_vocabularies_keep_their_tokens(
        self, settings: SettingsFactory, segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small = prepare_corpus(settings(), segmenter)
        vocabulary = {**segmenter.tokenizer.get_vocab(), "far": 100_000}
        monkeypatch.setattr(type(segmenter.tokenizer), "get_vocab", lambda _: vocabulary)
        large = prepare_corpus(settings(on_error="skip"), segmenter)
        size = [(corpus.folder / "shard-00000.arrow").stat().st_size for corpus in (small, large)]
        assert size[1] - size[0] > small.report.tokens
        assert all(
            np.array_equal(np.concatenate(small[n].token_ids), np.concatenate(large[n].token_ids)) for n in range(36)
        )

    def test_columns_and_folders(self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path) -> None:
        write_rows(tmp_path / "in" / "a.jsonl", [{"key": 7, "body": text_of(3, 1)}])
        (tmp_path / "in" / "b.md").write_text(f"# Head\n\n{text_of(2, 2)}\n", encoding="utf-8")
        (tmp_path / "in" / "c.weights").write_bytes(b"x")
        columns = Columns(text="body", id="key")
        corpus = prepare_corpus(settings(source=str(tmp_path / "in"), columns=columns), segmenter)
        assert ids_of(corpus) == ["7", "b"]
        assert corpus.report.ignored == 1


class TestCopies:
    def test_exact_copies_are_left_out_and_counted(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        rows = rows_of(10)
        copies = [{**rows[3], "id": "copy", "title": "Another"}, {**rows[0], "id": "short copy"}]
        source = write_rows(tmp_path / "copies.jsonl", [*rows, *copies, rows[3]])
        report = prepare_corpus(settings(source=str(source)), segmenter).report
        assert (report.documents, report.kept, report.too_short, report.duplicates) == (13, 9, 1, 3)
        kept = prepare_corpus(settings(source=str(source), deduplicate=False), segmenter)
        assert (kept.report.kept, kept.report.too_short, kept.report.duplicates) == (11, 2, 0)
        groups = {kept[number].id: kept[number].group for number in range(len(kept))}
        assert groups["copy"] == groups["d3"]
        assert len(set(groups.values())) == 9

    def test_copies_without_ids_are_copies_not_errors(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        source = write_rows(tmp_path / "copies.jsonl", [{"text": text_of(2, 1)}] * 3)
        assert prepare_corpus(settings(source=str(source)), segmenter).report.duplicates == 2


class TestBadInput:
    def test_a_broken_file_in_the_middle_stops_with_its_name(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        paths = files_of(tmp_path)
        Path(paths[1]).write_bytes(Path(paths[1]).read_bytes()[:300])
        with pytest.raises(DocumentError) as caught:
            prepare_corpus(settings(source=paths), segmenter)
        assert str(caught.value).startswith(f"{paths[1]}: ")
        assert list((tmp_path / "cache" / "corpora").iterdir()) == []

    def test_a_broken_file_in_the_middle_is_skipped_and_named(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        paths = files_of(tmp_path)
        Path(paths[1]).write_bytes(Path(paths[1]).read_bytes()[:300])
        corpus = prepare_corpus(settings(source=paths, on_error="skip"), segmenter)
        assert corpus.report.errors == 1
        assert corpus.report.first_errors[0].source == paths[1]
        assert {f"d{number}" for number in (1, 9, 21, 29)} <= set(ids_of(corpus))
        assert paths[1] in corpus.report.summary()

    def test_only_the_first_errors_are_held(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        source = tmp_path / "broken.jsonl"
        source.write_text("{\n" * 25 + json.dumps({"text": text_of(2, 1)}) + "\n" + "{\n" * 5, encoding="utf-8")
        report = prepare_corpus(settings(source=str(source), on_error="skip"), segmenter).report
        assert (report.kept, report.errors) == (1, 30)
        assert [entry.source for entry in report.first_errors] == [f"{source}:{line}" for line in range(1, 11)]

    @pytest.mark.parametrize(
        ("rows", "changes", "named"),
        [
            ([], {}, "in.jsonl"),
            ([], {"on_error": "skip"}, "in.jsonl"),
            ([{"text": "It is short."}] * 3, {"deduplicate": False}, "none of the 3 documents"),
            ([{"text": text_of(2, 1)}], {"source": "missing.jsonl"}, "missing.jsonl"),
        ],
    )
    def test_nothing_to_train_on_is_named(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path, rows: Any, changes: Any, named: str
    ) -> None:
        source = write_rows(tmp_path / "in.jsonl", rows)
        with pytest.raises(DocumentError, match=named):
            prepare_corpus(settings(**{"source": str(source), **changes}), segmenter)
        assert not list((tmp_path / "cache").glob("corpora/*"))

    def test_ten_thousand_passages_are_cut(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        source = write_rows(tmp_path / "long.jsonl", [{"text": text_of(10_000, 1)}, {"text": text_of(2, 2)}])
        report = (corpus := prepare_corpus(settings(source=str(source)), segmenter)).report
        assert corpus.passage_counts.tolist() == [50, 2]
        assert report.passages_cut == report.coverage.passages - 52 > 9_000
        assert report.documents_cut == 1


class TestCache:
    def test_a_corpus_is_used_again_without_reading(
        self, settings: SettingsFactory, segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = prepare_corpus(settings(), segmenter)

        def fail(*_: Any) -> Iterator[Any]:
            raise AssertionError("the documents are read again")

        monkeypatch.setattr(CorpusSource, "documents", fail)
        again = prepare_corpus(settings(preparing_processes=2), segmenter)
        assert again.folder == first.folder
        assert again.report == first.report
        with pytest.raises(AssertionError, match="read again"):
            prepare_corpus(settings(max_passages=4), segmenter)

    @pytest.mark.parametrize(
        "changes",
        [{"least_passages": 3}, {"deduplicate": False}, {"columns": Columns(title="heading")}],
        ids=lambda changes: next(iter(changes)),
    )
    def test_other_settings_make_another_corpus(
        self, settings: SettingsFactory, segmenter: Segmenter, changes: dict[str, Any]
    ) -> None:
        before = prepare_corpus(settings(), segmenter)
        assert prepare_corpus(settings(**changes), segmenter).fingerprint != before.fingerprint

    def test_other_files_make_another_corpus(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        before = prepare_corpus(settings(), segmenter)
        source = tmp_path / "corpus.jsonl"
        os.utime(source, ns=(0, 1))
        touched = prepare_corpus(settings(), segmenter)
        write_rows(source, rows_of(41))
        os.utime(source, ns=(0, 1))
        longer = prepare_corpus(settings(), segmenter)
        assert before.fingerprint == touched.fingerprint != longer.fingerprint
        assert (len(touched), len(longer)) == (36, 36)
        assert longer.report.documents == 41

    def test_changed_texts_of_the_same_size_and_time_make_another_corpus(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        source = tmp_path / "corpus.jsonl"
        before = prepare_corpus(settings(), segmenter)
        status = source.stat()
        source.write_bytes(source.read_bytes().replace(b" the ", b" and "))
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (source.stat().st_size, source.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
        after = prepare_corpus(settings(), segmenter)
        assert after.fingerprint != before.fingerprint
        assert after.content != before.content

    def test_a_new_file_in_a_folder_makes_another_corpus(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        write_rows(tmp_path / "in" / "a.jsonl", rows_of(5))
        folder, pattern = str(tmp_path / "in"), str(tmp_path / "in" / "*.jsonl")
        before = [prepare_corpus(settings(source=source), segmenter) for source in (folder, pattern)]
        write_rows(tmp_path / "in" / "b.jsonl", rows_of(15)[10:])
        after = [prepare_corpus(settings(source=source), segmenter) for source in (folder, pattern)]
        assert [len(corpus) for corpus in (*before, *after)] == [4, 4, 8, 8]

    def test_another_tokenizer_or_segmentation_makes_another_corpus(
        self, settings: SettingsFactory, segmenter: Segmenter
    ) -> None:
        before = prepare_corpus(settings(), segmenter)
        longer = Segmenter(segmenter.tokenizer, SegmentationConfig(passage_words=30, max_tokens=64))
        tokenizer = pickle.loads(pickle.dumps(segmenter.tokenizer))
        # Its state does not matter.
        tokenizer(["a", "b c d"], padding=True, truncation=True, max_length=8)
        same = Segmenter(tokenizer, segmenter.config)
        assert prepare_corpus(settings(), same).fingerprint == before.fingerprint
        assert prepare_corpus(settings(), longer).fingerprint != before.fingerprint
        tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
        assert prepare_corpus(settings(), same).fingerprint != before.fingerprint

    def test_an_interruption_leaves_nothing(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
            prepare_corpus(settings(), segmenter)
        assert list((tmp_path / "cache" / "corpora").iterdir()) == []
        monkeypatch.setattr(CorpusSource, "documents", real)
        assert len(prepare_corpus(settings(), segmenter)) == 36

    def test_what_a_killed_run_left_is_removed_after_a_day(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        corpora = tmp_path / "cache" / "corpora"
        for name, age in (("old", corpus_module.ABANDONED_AFTER_SECONDS + 60), ("new", 60)):
            folder = corpora / f".partial-elsewhere-1-{name}"
            folder.mkdir(parents=True)
            (folder / "shard-00000.arrow").write_bytes(b"half")
            # Parts of vectors are files.
            (corpora / f".partial-1-{name}.npy").write_bytes(b"half")
            for path in (folder / "shard-00000.arrow", folder, corpora / f".partial-1-{name}.npy"):
                os.utime(path, (time.time() - age,) * 2)
        corpus = prepare_corpus(settings(), segmenter)
        kept = {corpus.fingerprint, ".partial-elsewhere-1-new", ".partial-1-new.npy"}
        assert {path.name for path in corpora.iterdir()} == kept

    def test_a_corpus_that_another_job_has_finished_meanwhile_is_taken(
        self, settings: SettingsFactory, segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = CorpusSource.documents

        def overtaken(self: CorpusSource, report: CorpusReport) -> Iterator[Any]:
            monkeypatch.setattr(CorpusSource, "documents", real)
            prepare_corpus(settings(cache=str(other)), segmenter)
            (other / "corpora").rename(settings().corpora_folder.parent / "moved")
            (finished,) = (settings().corpora_folder.parent / "moved").iterdir()
            finished.rename(settings().corpora_folder / finished.name)
            yield from real(self, report)

        other = settings().corpora_folder.parent.parent / "other"
        monkeypatch.setattr(CorpusSource, "documents", overtaken)
        corpus = prepare_corpus(settings(), segmenter)
        assert len(corpus) == 36
        assert [path.name for path in corpus.folder.parent.iterdir()] == [corpus.fingerprint]

    def test_damage_is_named(self, settings: SettingsFactory, segmenter: Segmenter) -> None:
        folder = prepare_corpus(settings(), segmenter).folder
        shard = folder / "shard-00000.arrow"
        content = shard.read_bytes()
        for damaged in (content[:-100], bytes(len(content))):
            shard.write_bytes(damaged)
            with pytest.raises(OutputError, match=shard.name):
                prepare_corpus(settings(), segmenter)
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        for damage in ({"shards": 5}, {"shards": []}, {"shards": [{}]}, {"report": {"colour": 1}}, {"format": "x"}):
            (folder / "manifest.json").write_text(json.dumps({**manifest, **damage}), encoding="utf-8")
            with pytest.raises(OutputError, match=r"manifest\.json"):
                TrainingCorpus(folder)
        (folder / "manifest.json").write_text("{", encoding="utf-8")
        with pytest.raises(OutputError, match=r"manifest\.json"):
            TrainingCorpus(folder)
        with pytest.raises(OutputError, match=str(folder.parent)):
            TrainingCorpus(folder.parent)

    def test_changed_bytes_of_a_shard_are_found_whatever_its_time_says(
        self, settings: SettingsFactory, segmenter: Segmenter
    ) -> None:
        folder = prepare_corpus(settings(), segmenter).folder
        shard = folder / "shard-00000.arrow"
        status, content = shard.stat(), bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(OutputError) as caught:
            prepare_corpus(settings(), segmenter)
        assert str(shard) in str(caught.value) and f"remove {folder}" in str(caught.value)
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        assert len(prepare_corpus(settings(), segmenter)) == 36

    def test_a_cache_that_cannot_be_written_is_named(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(OutputError, match="file"):
            prepare_corpus(settings(cache=str(tmp_path / "file")), segmenter)


class TestDataSets:
    @pytest.fixture(autouse=True)
    def _own_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")

    def test_what_cannot_be_loaded_is_named(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        write_rows(tmp_path / "set" / "train.jsonl", rows_of(3))
        with pytest.raises(DocumentError, match="'dev'"):
            prepare_corpus(settings(dataset=str(tmp_path / "set"), split="dev"), segmenter)
        (tmp_path / "set" / "train.jsonl").write_text("{broken\n", encoding="utf-8")
        with pytest.raises(DocumentError, match="row 0"):
            prepare_corpus(settings(dataset=str(tmp_path / "set")), segmenter)

    def test_parts_of_a_split_and_changed_files_of_the_same_time(
        self, settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path
    ) -> None:
        source = write_rows(tmp_path / "set" / "train.jsonl", [{"text": text_of(2, number)} for number in range(6)])
        os.utime(source, ns=(0, 10**18))
        for split, count in (("train", 6), ("train[:50%]", 3)):
            chosen = settings(dataset=str(tmp_path / "set"), split=split)
            before = prepare_corpus(chosen, segmenter)
            content = source.read_bytes()
            source.write_bytes(content.replace(b"the", b"and"))
            os.utime(source, ns=(0, 10**18))
            after = prepare_corpus(chosen, segmenter)
            assert len(before) == len(after) == count
            assert before.content != after.content
            source.write_bytes(content)
            os.utime(source, ns=(0, 10**18))


class TestLoading:
    def test_workers_read_the_same_documents(self, settings: SettingsFactory, segmenter: Segmenter) -> None:
        corpus = prepare_corpus(settings(), segmenter)
        loader = DataLoader(corpus, batch_size=5, num_workers=2, collate_fn=list)
        found = [document for batch in loader for document in batch]
        assert [document.id for document in found] == ids_of(corpus)
        for number, document in enumerate(found):
            assert document.group == corpus[number].group
            assert np.array_equal(np.concatenate(document.token_ids), np.concatenate(corpus[number].token_ids))

    def test_a_corpus_can_be_pickled(self, settings: SettingsFactory, segmenter: Segmenter) -> None:
        corpus = prepare_corpus(settings(), segmenter)
        content = pickle.dumps(corpus)
        assert len(content) < 500
        again = pickle.loads(content)
        assert ids_of(again) == ids_of(corpus)
        assert asdict(again.report) == asdict(corpus.report)
