"""Training one config in several ways, with several seeds, and measuring all of them on the same pairs.

What is shared by the studies of this folder. A study is a file of ``configs/studies``; settings are changed as
``key=value`` behind the file, so that the same study runs at full size: ``base=configs/finetune/colde.yaml
settings=[corpus.max_passages=60]``. Every run lies in the working folder; one that is finished is not run again, and
one that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from frozen_passages import passages_of
from pydantic import Field, model_validator
from reporting import DATA, RESULTS, ROOT, describe_machine, write_result

from graphdoc import Document, DocumentEncoder, read_documents, trainer
from graphdoc.analysis.figures.canvas import finish, new_figure
from graphdoc.documents.readers.streams import LeftOutSections
from graphdoc.errors import DocumentError, GraphdocError, OutputError, SettingsError
from graphdoc.evaluation import PairEvaluator, read_pair_file
from graphdoc.evaluation.baselines import SharedPassages, untrained_mean
from graphdoc.evaluation.labels import plain_document
from graphdoc.evaluation.pair_scores import pair_auc
from graphdoc.evaluation.pairs import ComparisonScores
from graphdoc.evaluation.resampling import Estimate, resampled
from graphdoc.inference.precision import Precision
from graphdoc.registry import RECIPES, load
from graphdoc.runtime.files import write_atomically, write_text
from graphdoc.runtime.text import one_line
from graphdoc.segmentation.spans import SegmentedDocument
from graphdoc.settings.base import Count, FileName, Settings
from graphdoc.settings.loading import load_settings
from graphdoc.training.run_folder import CONFIG_FILE, check_same_settings

METRICS = ("auc", "average_precision", "precision", "recall", "f1", "accuracy")
TFIDF, UNTRAINED = "TF-IDF cosine", "untrained mean"
RESAMPLES = 1000


class StudyModel(Settings):
    """A model that rows of a study read, which is trained before them."""

    command: str
    """the words of the command that trains it, such as finetune subtopics"""
    base: FileName
    """its config, from the root of the project"""
    settings: list[str] = Field(default_factory=list)
    """what is different from it; {data} is the folder"""


class OtherReading(Settings):
    """A row whose models are those of another row, measured with other views."""

    of: str
    """the other row"""
    settings: list[str]
    """settings of views that are different when pairs are matched"""


class StudySettings(Settings):
    """What a study compares."""

    title: str
    """what it asks"""
    command: str = "finetune compare"
    """the words of the command that trains"""
    base: FileName = "configs/finetune/graph_compare.yaml"
    """the config, from the root of the project"""
    folder: FileName = "scisumm_acl"
    """folder of the documents and pairs, in the folder of all data"""
    documents: FileName = "papers.jsonl.gz"
    """file of the documents"""
    test: FileName = "pairs_test.tsv"
    """pairs that are measured"""
    validation: FileName = "pairs_dev.tsv"
    """pairs that the threshold is chosen on"""
    settings: list[str] = Field(default_factory=list)
    """settings of the config that are the same for all rows; {data} is the folder, and {NAME} that of a model"""
    models: dict[str, StudyModel] = Field(default_factory=dict)
    """models that rows read, by their names"""
    rows: dict[str, list[str]] = Field(default_factory=dict)
    """what is different in every row"""
    readings: dict[str, OtherReading] = Field(default_factory=dict)
    """further rows, of the same models"""
    against: str | None = None
    """row that differences in AUC are taken against"""
    lengths: list[Count] = Field(default_factory=list)
    """words of the longer document of a pair where buckets of length begin, rising"""
    with_untrained: bool = True
    """whether the backbone is measured too, with a mean over its passages"""
    with_words: bool = False
    """whether every row is measured together with the words of whole texts too: the sum of both, each brought to mean
    0 and deviation 1 over the validation pairs"""
    seeds: Count = 3
    """number of seeds"""
    precision: Precision = "bfloat16"
    """what the transformer computes in when documents are measured"""

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if not self.rows:
            raise SettingsError("rows={} holds no row; name one, with the settings that are different in it")
        folders: dict[str, str] = {}
        for name, reading in self.readings.items():
            if reading.of not in self.rows:
                raise SettingsError(f"readings has {name!r} of {reading.of!r}, which is no row; name one of rows")
        if self.against is not None and self.against not in self.all_rows:
            raise SettingsError(f"against={self.against!r} is no row; name one")
        for row in self.all_rows:
            name = folder_name(row)
            if not name or name != Path(name).name or name in (TFIDF, UNTRAINED, "..", "."):
                raise SettingsError(f"rows has {row!r}, which cannot name the folder of its runs; rename it")
            if (other := folders.setdefault(name, row)) != row:
                raise SettingsError(f"rows has {other!r} and {row!r}, which would share a folder; rename one")
        return self

    @property
    def all_rows(self) -> list[str]:
        """The names of all rows."""
        return [*self.rows, *self.readings]


class Study:
    """A study on this machine.

    Args:
        settings: what is compared.
        work: folder of its runs.
        data: folder of all data sets.
    """

    def __init__(self, settings: StudySettings, work: Path, data: Path) -> None:
        self.settings, self.work, self.folder = settings, work, data / settings.folder
        if not (path := self.folder / settings.documents).exists():
            raise DocumentError(f"{path}: there is no such file; check --data, folder and documents")
        # Before documents are read, which takes longer than finding a mistake.
        self.require_own_runs()
        first = self.run_settings(next(iter(settings.rows)), 0)
        self._left_out = LeftOutSections(tuple(first.corpus.leave_out_sections))
        documents: Iterable[Document] = read_documents(self.folder / settings.documents, on_error="skip")
        # Of a document that has nothing but what is left out no view can be drawn: its pairs are left out.
        written = (one for one in self._left_out.without(documents) if not one.is_empty)
        self.comparison = self._compare(written)
        self._shared = SharedPassages(self._encoded, self.comparison)

    def filled(self, change: str) -> str:
        """A setting with the places of what it names."""
        for name in self.settings.models:
            change = change.replace(f"{{{name}}}", str(self.work / "models" / folder_name(name) / "model"))
        return change.replace("{data}", str(self.folder))

    def run_settings(self, row: str, seed: int, *more: str) -> Any:
        """The settings of one run.

        Args:
            row: its row.
            seed: its seed.
            *more: settings that are different from those of the row.
        """
        settings = self.settings
        changes = [
            f"corpus.source={self.folder / settings.documents}",
            *(self.filled(change) for change in (*settings.settings, *settings.rows[row], *more)),
            # What is measured after training chooses nothing: the last model is the result.
            "validation.pairs=null",
            f"training.seed={seed}",
            f"output={self.work / folder_name(row) / str(seed)}",
        ]
        return load_settings(load(RECIPES[settings.command].settings), ROOT / settings.base, changes)

    def model_settings(self, name: str) -> Any:
        """The settings of a model that rows read."""
        model = self.settings.models[name]
        changes = [
            f"corpus.source={self.folder / self.settings.documents}",
            *map(self.filled, model.settings),
            f"output={self.work / 'models' / folder_name(name)}",
        ]
        return load_settings(load(RECIPES[model.command].settings), ROOT / model.base, changes)

    @cached_property
    def measured(self) -> dict[str, str]:
        """What scores are of: the contents of files, since other pairs may stand in a file of the same name."""
        settings = self.settings
        files = {name: self.folder / getattr(settings, name) for name in ("documents", "test", "validation")}
        contents = {name: content_hash(path) for name, path in files.items()}
        return {**contents, "left_out": "; ".join(self._left_out.headings), "precision": settings.precision}

    def require_own_runs(self) -> None:
        """Refuse settings that cannot be, and runs of the working folder that were made with others.

        Raises:
            OutputError: a run has other settings.
            SettingsError: a setting is not valid.
        """
        runs = [self.run_settings(row, seed) for row in self.settings.rows for seed in range(self.settings.seeds)]
        for run in [*runs, *map(self.model_settings, self.settings.models)]:
            if (path := run.folder / CONFIG_FILE).is_file():
                check_same_settings(path, run)
        for reading in self.settings.readings.values():
            self.run_settings(reading.of, 0, *reading.settings)

    def trained(self, row: str, seed: int) -> DocumentEncoder:
        """The model of a run, trained unless it is there; that of another row where the row is a reading of it."""
        reading = self.settings.readings.get(row)
        if reading is not None:
            encoder = self.trained(reading.of, seed)
            encoder.model.config.views = self.run_settings(reading.of, seed, *reading.settings).views.as_values()
            return encoder
        used = [name for name in self.settings.models if any(f"{{{name}}}" in one for one in self.settings.rows[row])]
        for name in used:
            model_of(self.model_settings(name))
        return DocumentEncoder.from_pretrained(model_of(self.run_settings(row, seed)))

    def untrained(self) -> DocumentEncoder:
        """The backbone of the config with a mean over its passages."""
        return untrained_mean(self.trained(next(iter(self.settings.rows)), 0))

    def ready(self, encoder: DocumentEncoder) -> PairEvaluator:
        """The pairs with their documents cut and, where the passage encoder is that of others, encoded once."""
        frozen = self.run_settings(next(iter(self.settings.rows)), 0).model.tune == "frozen"
        return self._shared.of(encoder) if frozen else self.comparison

    def _encoded(self, encoder: DocumentEncoder) -> PairEvaluator:
        """The pairs with the vectors of their passages, made or read again."""
        limit = encoder.model.config.max_passages
        plain = [plain_document(one) for one in self.comparison.documents]
        return self._compare(passages_of(self.work / f"passages_{limit}.npz", encoder, plain))

    def _compare(self, documents: Iterable[Document | SegmentedDocument]) -> PairEvaluator:
        settings = self.settings
        return PairEvaluator(
            documents,
            read_pair_file(self.folder / settings.test),
            read_pair_file(self.folder / settings.validation),
            unknown="leave_out",
            lengths=settings.lengths,
            resamples=0,
            dtype=settings.precision,  # type: ignore[arg-type]
        )

    def scores(self, row: str, seed: int) -> ComparisonScores:
        """What a run measures; the similarities of pairs are kept beside it."""
        encoder = self.trained(row, seed)
        comparison = self.ready(encoder)
        similarities = comparison.similarities(encoder)
        write_atomically(self.similarities_of(row, seed), partial(_save, similarities))
        return comparison.score(similarities)

    def similarities_of(self, row: str, seed: int) -> Path:
        """The file of the similarities that a run gave to test pairs, and after them to validation pairs."""
        return self.work / folder_name(row) / str(seed) / "similarities.npy"

    def kept_similarities(self, row: str, seed: int) -> npt.NDArray[np.float64]:
        """The similarities that a run gave."""
        return np.asarray(np.load(self.similarities_of(row, seed), allow_pickle=False), np.float64)

    def with_words(self, row: str, seed: int) -> npt.NDArray[np.float64]:
        """The similarities of a run together with the words of whole texts."""
        return self.comparison.fused(self.kept_similarities(row, seed), self.words)

    @cached_property
    def words(self) -> npt.NDArray[np.float64]:
        """What the words of whole texts give."""
        return self.comparison.tfidf()

    def differences(self) -> dict[str, tuple[float, float, float]]:
        """How much higher the AUC of every row is than that of the row ``against``, with its interval.

        AUCs are means over seeds; every resample draws pairs and seeds, the same ones for all rows, so that an
        interval says what other pairs and other runs would give.
        """
        labels = np.array(self.comparison.labels)
        # How often every pair is drawn; once each to begin with.
        resamples = [np.ones(len(labels), np.int64), *resampled(len(labels), RESAMPLES, 0)]
        seeds = self.settings.seeds
        drawn_seeds = [np.ones(seeds, np.int64), *resampled(seeds, RESAMPLES, 1)]
        found_by = {
            row: [self.kept_similarities(row, seed)[: len(labels)] for seed in range(seeds)]
            for row in self.settings.all_rows
        }
        if self.settings.with_words:
            found_by |= {
                _with_words(row): [self.with_words(row, seed)[: len(labels)] for seed in range(seeds)]
                for row in self.settings.all_rows
            }
        aucs = {}
        for row, scores in found_by.items():
            aucs[row] = np.array(
                [
                    np.average(
                        [pair_auc(np.repeat(labels, drawn), np.repeat(one, drawn)) for one in scores], weights=weights
                    )
                    for drawn, weights in zip(resamples, drawn_seeds, strict=True)
                ]
            )
        found = {}
        for row, values in aucs.items():
            if row != self.settings.against:
                gained = values - aucs[str(self.settings.against)]
                low, high = Estimate(gained[0], gained[1:]).interval or (np.nan, np.nan)
                found[row] = (float(gained[0]), low, high)
        return found

    def table(self) -> dict[str, list[dict[str, float]]]:
        """The scores of all rows and seeds, with those that every table carries; kept in the working folder."""
        found: dict[str, list[dict[str, float]]] = {TFIDF: [numbers(self.comparison.score(self.words))]}
        print(TFIDF, found[TFIDF], flush=True)
        for row in self.settings.all_rows:
            for seed in range(self.settings.seeds):
                path = self.work / folder_name(row) / str(seed) / "scores.json"
                kept = json.loads(path.read_text()) if path.is_file() else {}
                # Other pairs, or documents read in another precision, are measured again.
                if not kept or kept.pop("measured", self.measured) != self.measured:
                    kept = numbers(self.scores(row, seed))
                    write_text(path, json.dumps({**kept, "measured": self.measured}))
                found.setdefault(row, []).append(kept)
                print(row, seed, found[row][-1], flush=True)
        if self.settings.with_untrained:
            mean = self.untrained()
            comparison = self.ready(mean)
            found[UNTRAINED] = [numbers(comparison.score(comparison.similarities(mean)))]
            print(UNTRAINED, found[UNTRAINED], flush=True)
        if self.settings.with_words:
            for row in self.settings.all_rows:
                fused = (self.with_words(row, seed) for seed in range(self.settings.seeds))
                found[_with_words(row)] = [numbers(self.comparison.score(one)) for one in fused]
        order = [TFIDF, UNTRAINED, *self.settings.all_rows, *map(_with_words, self.settings.all_rows)]
        return {row: found[row] for row in order if row in found}


def model_of(run: Any) -> Path:
    """The folder of the model of a run, trained unless it is there, from where an interrupted run had come."""
    folder = Path(run.folder / "model")
    if not folder.is_dir():
        trainer.train(run, resume=(run.folder / CONFIG_FILE).is_file(), show_progress_bar=False)
    if not folder.is_dir():
        # What a stopped run has come to is no result.
        raise OutputError(f"{run.folder}: the run was asked to stop; run the study again, which goes on with it")
    return folder


def _save(numbers: npt.NDArray[np.float64], path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, numbers, allow_pickle=False)


def content_hash(path: Path) -> str:
    """Hash of all that a file holds."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _with_words(row: str) -> str:
    return f"{row}, with words"


def folder_name(row: str) -> str:
    """The folder of a row's runs."""
    return row.replace(" ", "_")


def numbers(scores: ComparisonScores) -> dict[str, float]:
    """The metrics of a row, and its AUC by length."""
    by_length = {name: bucket.values["auc"] for name, bucket in scores.lengths.items()}
    # Of pairs that are all similar, or none, there is no AUC.
    lengths = {name: np.nan if value is None else float(value) for name, value in by_length.items()}
    return {**{name: float(scores.test.values[name] or 0.0) for name in METRICS}, **lengths}


def spread(values: Sequence[float]) -> str:
    """A mean with its standard deviation, where there are several values."""
    mean = float(np.mean(values))
    return f"{mean:.3f} ± {float(np.std(values, ddof=1)):.3f}" if len(values) > 1 else f"{mean:.3f}"


def as_markdown(table: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """The rows of a table."""
    lines = [
        "| | " + " | ".join(("AUC", "average precision", "precision", "recall", "F1", "accuracy")) + " |",
        "|---|" + "---|" * len(METRICS),
    ]
    for row, scores in table.items():
        cells = [spread([one[name] for one in scores]) for name in METRICS]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


def lengths_as_markdown(table: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """The AUC of all rows by the length of the longer document; nothing where there are no buckets."""
    buckets = [name for name in next(iter(table.values()))[0] if name not in METRICS]
    if not buckets:
        return []
    lines = ["", "AUC by the words of the longer document of a pair:", "", f"| | {' | '.join(buckets)} |"]
    lines.append("|---|" + "---|" * len(buckets))
    lines += [
        f"| {row} | {' | '.join(spread([one[name] for one in scores]) for name in buckets)} |"
        for row, scores in table.items()
    ]
    return lines


def differences_as_markdown(study: Study) -> list[str]:
    """What rows gain over one of them, with intervals; nothing where none is named."""
    against = study.settings.against
    if against is None:
        return []
    lines = ["", f"AUC against `{against}` (middle 95 % of {RESAMPLES:,} resamples of pairs and of seeds):", ""]
    lines += ["| | difference |", "|---|---|"]
    for row, (gained, low, high) in study.differences().items():
        lines.append(f"| {row} | {gained:+.3f} [{low:+.3f}, {high:+.3f}] |")
    return lines


def changes_of_rows(settings: StudySettings) -> list[str]:
    """What every row changes, as a list."""
    models = [
        f"- `{{{name}}}`: `{model.base}` with {', '.join(f'`{one}`' for one in model.settings) or 'nothing changed'}"
        for name, model in settings.models.items()
    ]
    rows = {**settings.rows, **{row: [*settings.rows[one.of], *one.settings] for row, one in settings.readings.items()}}
    words = "the sum of a score and the TF-IDF cosine of whole texts, each brought to mean 0 and deviation 1 over the"
    return (
        [
            f"- {row}: {', '.join(f'`{one}`' for one in changed) or f'`{settings.base}` as it is'}"
            for row, changed in rows.items()
        ]
        + models
        + [f"- with words: {words} validation pairs"] * settings.with_words
    )


def run_study(
    name: str,
    description: str | None,
    plot: Callable[[Mapping[str, Sequence[Mapping[str, float]]], Path], None],
    more: Callable[[Study], Sequence[str]] = lambda _: (),
    *,
    script: str | None = None,
    arguments: Sequence[str] | None = None,
) -> None:
    """Run a study from the command line: train, measure, draw and write.

    Args:
        name: name of the study, of its configuration and of its results.
        description: what ``--help`` says.
        plot: draws the table.
        more: further lines of the results.
        script: what is run, where it is not named after the study.
        arguments: what follows it; None for the arguments of the program.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "studies" / f"{name}.yaml")
    parser.add_argument("--work", type=Path, default=Path("runs") / name)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument(
        "--results",
        type=Path,
        help=f"folder of table and figure (default: {RESULTS.relative_to(ROOT)} for the study as it is, otherwise the "
        "folder --work)",
    )
    parser.add_argument("changes", nargs="*", metavar="key=value", help="settings to change")
    options = parser.parse_args(arguments)
    given = [
        part
        for option in ("config", "data")
        if getattr(options, option) != parser.get_default(option)
        for part in (f"--{option}", str(getattr(options, option)))
    ]
    results = options.results or (options.work if given or options.changes else RESULTS)
    try:
        settings = load_settings(StudySettings, options.config, options.changes)
        study = Study(settings, options.work, options.data)
        table = study.table()
        differences = differences_as_markdown(study)
    except GraphdocError as error:
        parser.exit(2, f"{parser.prog}: {one_line(str(error))}\n")
    results.mkdir(parents=True, exist_ok=True)
    figure = results / f"{name}.png"
    plot(table, figure)
    comparison = study.comparison
    seeds = "1 seed" if settings.seeds == 1 else f"{settings.seeds} seeds (mean ± standard deviation)"
    lines = [
        f"# {settings.title}\n",
        f"`{shlex.join(['python', *shlex.split(script or f'benchmarks/{name}.py'), *given, *options.changes])}`\n",
        f"{describe_machine()}\n",
        f"Config `{settings.base}`, {seeds}, on {settings.folder}: "
        f"{len(comparison.pairs):,} test pairs, threshold from {len(comparison.validation):,} validation pairs. "
        f"Changed for all rows: {', '.join(f'`{one}`' for one in settings.settings) or 'nothing'}.\n",
        *as_markdown(table),
        *differences,
        *lengths_as_markdown(table),
        f"\n![{settings.title}]({figure.name})\n",
        *changes_of_rows(settings),
        *more(study),
        "",
    ]
    print("\n".join(lines))
    print(f"wrote {write_result(name, chr(10).join(lines), results)} and {figure}")


def course(table: Mapping[str, Sequence[Mapping[str, float]]], label: str, path: Path) -> None:
    """Draw AUC, F1 and accuracy over what the rows are named after, with the range of their seeds."""
    rows = [row for row in table if row not in (TFIDF, UNTRAINED)]
    figure = new_figure(6, 4)
    axes = figure.subplots()
    for metric, color in zip(("auc", "f1", "accuracy"), ("#1f4e8c", "#c4622d", "#3a8a5c"), strict=True):
        values = [[one[metric] for one in table[row]] for row in rows]
        axes.plot(range(len(rows)), [np.mean(one) for one in values], "o-", color=color, label=metric)
        lowest, highest = ([pick(one) for one in values] for pick in (min, max))
        axes.fill_between(range(len(rows)), lowest, highest, color=color, alpha=0.15)
    beside = UNTRAINED if UNTRAINED in table else TFIDF
    axes.axhline(table[beside][0]["auc"], color="#1f4e8c", linestyle=":", label=f"auc, {beside}")
    axes.set_xticks(range(len(rows)), rows)
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)
    axes.legend()
    finish(figure, path)


def error_bars(table: Mapping[str, Sequence[Mapping[str, float]]], metric: str, title: str, path: Path) -> Any:
    """Draw one metric of all rows as points with the range of their seeds."""
    rows = list(table)
    figure = new_figure(7, 0.45 * len(rows) + 1.4)
    axes = figure.subplots()
    for place, row in enumerate(rows):
        values = [one[metric] for one in table[row]]
        axes.plot(values, [place] * len(values), "o", color="#9db8d9", markersize=5)
        axes.plot(np.mean(values), place, "|", color="#1f4e8c", markersize=16, markeredgewidth=2.5)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(metric.replace("_", " "))
    axes.set_title(title)
    finish(figure, path)
