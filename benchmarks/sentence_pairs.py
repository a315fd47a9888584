"""What does training on sentence pairs give, and what is each part of SDR worth? Table 3 of the SDR paper.

Every row of ``configs/studies/sdr.yaml`` is a run of ``graphdoc pretrain``; its model ranks the first sentences of the
test articles by each of them (see ``document_ranking.py``). Runs and scores lie in the working folder; a run that is
finished is not run again, and one that was interrupted goes on.

    python benchmarks/sentence_pairs.py [--rows "on train articles"] [--seeds 1] [--work FOLDER]
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from document_ranking import BY_SENTENCES, Ranked, rank_by_sentences, wikispeedia_cut
from pydantic import Field
from raw_language_model import language_model
from reporting import DATA, ROOT, describe_machine, write_result
from studies import spread

from graphdoc import DocumentEncoder, read_documents
from graphdoc.evaluation import RankedDocuments, RankingTable
from graphdoc.evaluation.rankers import RankedCorpus
from graphdoc.inference.precision import LoadPrecision
from graphdoc.runtime.files import write_text
from graphdoc.settings.base import Count, FileName, Settings
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SentencePairSettings
from graphdoc.trainer import train

SENTENCE_SCORINGS = ("document", "paragraphs", "sentences", "flat")
ZSCORE = "sentences, z-score"
MEASURES = ("nDCG@10", "MPR", "MRR", "HR@10", "HR@100")
UNTRAINED = {
    "no training": "sentence-transformers/all-MiniLM-L6-v2",
    "raw language model, no training": "{language_model}",
}
# Steps of masked language modelling, 64 x 128 tokens, and characters of a source, as in raw_language_model.py.
STEPS, CHARACTERS = 350, 8_000_000


class SentencePairStudy(Settings):
    """What is compared."""

    title: str
    """what it asks"""
    base: FileName = "configs/pretrain/sdr_minilm.yaml"
    """the config, from the root of the project"""
    settings: list[str] = Field(default_factory=list)
    """settings that are the same for all rows"""
    rows: dict[str, list[str]] = Field(default_factory=dict)
    """what is different in every row"""
    seeds: Count = 3
    """number of seeds"""


class Runs:
    """The runs of a study, in a folder.

    Args:
        study: what is compared.
        work: the folder.
        dtype: precision of models when they are measured.
    """

    def __init__(self, study: SentencePairStudy, work: Path, dtype: LoadPrecision = "float32") -> None:
        self.study, self.work, self.dtype = study, work.resolve(), dtype

    @cached_property
    def found(self) -> Ranked:
        """The articles that are ranked."""
        return wikispeedia_cut()

    def filled(self, text: str) -> str:
        """A setting with the places of what it names."""
        for name in ("train", "ranked"):
            text = text.replace(f"{{{name}}}", str(self.work / f"{name}.jsonl"))
        if "{language_model}" in text:
            text = text.replace("{language_model}", str(language_model(self.work, STEPS, CHARACTERS)))
        return text

    def write_articles(self) -> None:
        """Write the articles that runs are trained on, once."""
        splits = {"train": "train", "ranked": "test"}
        for name, split in splits.items():
            path = self.work / f"{name}.jsonl"
            if path.is_file():
                continue
            rows = [
                {
                    "id": one.id,
                    "title": one.title,
                    "sections": [{"heading": section.heading, "text": section.text} for section in one.sections],
                }
                for one in read_documents(DATA / "wikispeedia/articles.jsonl.gz")
                if one.metadata["split"] == split
            ]
            write_text(path, "".join(json.dumps(row) + "\n" for row in rows))

    def run_settings(self, row: str, seed: int) -> SentencePairSettings:
        """The settings of one run."""
        changes = [
            *(self.filled(change) for change in (*self.study.settings, *self.study.rows[row])),
            f"training.seed={seed}",
            f"output={self.work / folder_name(row) / str(seed)}",
        ]
        return load_settings(SentencePairSettings, ROOT / self.study.base, changes)

    def trained(self, row: str, seed: int) -> DocumentEncoder:
        """The model of a run, trained unless it is there."""
        folder = self.work / folder_name(row) / str(seed)
        # A run that was stopped has results, too.
        if not (folder / "model").is_dir():
            train(self.run_settings(row, seed), resume=(folder / "config.yaml").is_file())
        return DocumentEncoder.from_pretrained(folder / "model", dtype=self.dtype, max_passages=None)

    def scores(self, row: str, seed: int) -> dict[str, dict[str, float]]:
        """What the model of a run measures, by way; kept in its folder."""
        folder = self.work / folder_name(row) / str(seed)
        path = folder / "scores.json"
        if not path.is_file():
            if row in UNTRAINED:
                encoder = DocumentEncoder.from_backbone(
                    self.filled(UNTRAINED[row]),
                    dtype=self.dtype,
                    pooling="mean",
                    projection_size=None,
                    graph_layers=0,
                    readout="mean",
                    sentence_context="title",
                )
            else:
                encoder = self.trained(row, seed)
            write_text(path, json.dumps(self.measure(encoder, folder)))
        return dict(json.loads(path.read_text()))

    def measure(self, encoder: DocumentEncoder, folder: Path) -> dict[str, dict[str, float]]:
        """Rank the articles by sentences, in every way."""
        found = self.found
        corpus = RankedCorpus(found.documents, lambda: encoder, show_progress_bar=True)
        ways = ("document", "paragraphs", "flat", "sentences", ZSCORE)
        runs = {name: rank_by_sentences(corpus, found, BY_SENTENCES[name]) for name in ways}
        candidates = RankedDocuments(len(found.documents) - 1)
        table = RankingTable.from_runs(runs, found.judgements.qrels, MEASURES, candidates=candidates)
        return {name: scores.means for name, scores in table.scores.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "studies" / "sdr.yaml")
    parser.add_argument("--work", type=Path, default=Path("runs/sentence-pairs"))
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="rows to run (default: all)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="precision when measuring")
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds to run (default: those of the study)")
    options = parser.parse_args(arguments)
    study = load_settings(SentencePairStudy, options.config, [])
    runs = Runs(study, options.work, options.dtype)
    runs.write_articles()
    table: dict[str, list[dict[str, dict[str, float]]]] = {}
    seeds = options.seeds or study.seeds
    for row in options.rows or (*UNTRAINED, *study.rows):
        for seed in range(1 if row in UNTRAINED else seeds):
            table.setdefault(row, []).append(runs.scores(row, seed))
            print(row, seed, table[row][-1], flush=True)
    given = [*(["--rows", *options.rows] if options.rows else []), "--dtype", options.dtype]
    given += ["--seeds", str(options.seeds)] if options.seeds else []
    command = shlex.join(["python", "benchmarks/sentence_pairs.py", *given])
    parts = [
        f"# {study.title}",
        f"`{command}`",
        describe_machine(),
        f"Config `{study.base}` with {', '.join(f'`{one}`' for one in study.settings)}; {seeds} seeds (mean, and "
        f"standard deviation where there are several). {len(runs.found.judgements):,} sources among "
        f"{len(runs.found.documents):,} articles, the first 5 sentences of a section and 48 of an article.",
        *(section(measure, table) for measure in MEASURES),
        "\n".join(f"- {row}: {', '.join(f'`{one}`' for one in changed)}" for row, changed in study.rows.items()),
    ]
    print(write_result("sentence_pairs", "\n\n".join(parts)))


def section(measure: str, table: Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]]) -> str:
    """The table of a measure as Markdown."""
    ways = (*SENTENCE_SCORINGS, ZSCORE)
    lines = [f"## {measure}", "", f"| trained | {' | '.join(ways)} |", f"|---|{'---|' * len(ways)}"]
    for row, scores in table.items():
        cells = [spread([one[way][measure] for one in scores]) for way in ways]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def folder_name(row: str) -> str:
    """The folder of a row's runs."""
    return "_".join(row.replace(",", "").split())


if __name__ == "__main__":
    main()
