"""graphdoc evaluate compare: do document vectors separate similar pairs of documents from others?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import EvaluationError
from ..runtime.files import write_text
from ..runtime.memory import quick_imports
from ..runtime.text import counted
from .arguments import add_model_arguments, add_reading_arguments, positive, whole
from .measured_models import (
    Candidate,
    add_baseline_arguments,
    check_baselines,
    load_candidates,
    processes_of,
    with_shared_passages,
)
from .outputs import JSON, Outputs, write_json
from .pair_tables import HEADINGS, Row, all_scores, pair_markdown, score_table, scored_pairs, scores_by_length
from .sources import encodable, read_many, skips_unencodable
from .summaries import list_left_out, print_lines
from .tables import signed_interval

if TYPE_CHECKING:
    from ..evaluation import PairEvaluator
    from ..evaluation.bootstrap import Estimate
    from ..runtime.processes import Processes

HELP = "pairs that are similar or not: F1, accuracy, AUC, average precision"
DESCRIPTION = """Compare the documents of labelled pairs by the cosine of their vectors, and measure how well it
separates pairs that belong together from pairs that do not: AUC and average precision, and precision, recall, F1 and
accuracy at a threshold. The threshold is the best one on the validation pairs; without them it is the best one on the
test pairs themselves, so that these four are upper bounds. All have 95 % bootstrap intervals over pairs, and are
shown by length too.

TF-IDF cosine, which goes by words alone, is measured on the same pairs, and so is the backbone of every model as it
was before training. A file of pairs has two ids and 1 (similar) or 0 in a line, with tabs between."""
EPILOG = """examples:
  graphdoc evaluate compare --data corpus.jsonl --pairs test.tsv --validation-pairs dev.tsv --model runs/a/model
  graphdoc evaluate compare --data papers.jsonl.gz --pairs test.tsv --leave-out-section Abstract --output scores/
  graphdoc evaluate compare --data papers/ --pairs test.tsv --threshold-by accuracy --json scores.json
"""

FORMAT = "graphdoc.pair_comparison/1"
OUTPUTS = Outputs(
    json=("scores.json", JSON),
    csv=("scores.csv", "write the tables as CSV"),
    markdown=("scores.md", "write the tables as Markdown"),
    scored=("pairs.csv", "write every pair with its similarities as CSV"),
    plot=("pairs.png", "draw ROC curves and similarities (.png, .svg, .pdf)"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("documents and pairs")
    data.add_argument(
        "--data", metavar="SOURCE", nargs="+", required=True, help="corpora that the documents of the pairs are in"
    )
    data.add_argument("--pairs", metavar="FILE", required=True, help="the test pairs: id_a, id_b, 0 or 1 by tabs")
    data.add_argument("--validation-pairs", metavar="FILE", help="pairs that thresholds are chosen on")
    data.add_argument(
        "--leave-out-section",
        metavar="HEADING",
        action="append",
        default=[],
        help="take sections of this heading out of all documents, such as Abstract; may be given several times",
    )
    measures = parser.add_argument_group("measures")
    measures.add_argument(
        "--threshold-by",
        choices=("f1", "accuracy"),
        default="f1",
        help="what the threshold is to make greatest (default: f1)",
    )
    measures.add_argument(
        "--lengths",
        type=lengths,
        metavar="N,N,...",
        help="words of the longer document where a new row by length begins, or 'none' (default: "
        "500,1000,2000,4000,8000)",
    )
    measures.add_argument(
        "--resamples", type=positive, default=1000, metavar="N", help="bootstrap resamples (default: 1000)"
    )
    measures.add_argument(
        "--fuse-words",
        action="store_true",
        help="also measure every model together with the words of the same passages: the sum of its similarity and "
        "their TF-IDF cosine, each brought to mean 0 and deviation 1",
    )
    measures.add_argument(
        "--fuse-titles",
        action="store_true",
        help="also measure every model together with how much of either title stands in the text of the other, as "
        "where papers cite papers; with --fuse-words all three",
    )
    measures.add_argument("--seed", type=whole, default=0, metavar="N", help="draws the resamples (default: 0)")
    add_baseline_arguments(parser)
    OUTPUTS.add_to(parser)
    add_model_arguments(parser, several=True, measures=True)
    add_reading_arguments(parser)


def lengths(value: str) -> tuple[int, ...]:
    """Rising numbers of words with commas between, or none of them for ``none``."""
    if value == "none":
        return ()
    try:
        found = tuple(positive(part.strip()) for part in value.split(","))
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{value!r} is neither rising numbers with commas nor 'none'") from error
    if sorted(set(found)) != list(found):
        raise argparse.ArgumentTypeError(f"{value!r} does not rise from number to number")
    return found


def run(options: argparse.Namespace) -> None:
    """Read, encode, measure, print and write."""
    check_baselines(options)
    OUTPUTS.prepare(options, [*options.data, options.pairs, options.validation_pairs])

    from ..documents.readers import ReadingReport
    from ..documents.readers.left_out_sections import LeftOutSections

    with quick_imports():
        from ..evaluation import PairEvaluator, Pairs, read_pair_file
        from ..evaluation.pair_scores import differences
        from ..evaluation.pairs import LENGTHS

    with processes_of(options) as processes:
        pairs = read_pair_file(options.pairs)
        validation = Pairs(()) if options.validation_pairs is None else read_pair_file(options.validation_pairs)
        report = ReadingReport()
        sections = LeftOutSections(tuple(dict.fromkeys(options.leave_out_section)))
        wanted = {id for part in (pairs, validation) for pair in part for id in (pair.a, pair.b)}
        read = read_many(options.data, options, report)
        whole_or_not = sections.without(read) if sections.headings else read
        documents = [document for document in whole_or_not if document.id in wanted]
        if unused := [heading for heading, count in sections.counts.items() if not count]:
            raise EvaluationError(f"no document has a section {unused[0]!r}; check --leave-out-section")
        evaluator_of = partial(
            PairEvaluator,
            pairs=pairs,
            validation=validation,
            by=options.threshold_by,
            unknown="leave_out" if options.on_error == "skip" else "stop",
            lengths=LENGTHS if options.lengths is None else options.lengths,
            resamples=options.resamples,
            seed=options.seed,
        )
        # Pairs that nothing can be measured on are refused before any model is loaded.
        evaluator = evaluator_of(documents)
        candidates, skipped = load_candidates(options)
        if skips_unencodable(options, options.data):
            evaluator = evaluator_of(list(encodable(documents, candidates[0].encoder, report)))
        rows = _measure(
            evaluator, candidates, processes, fuse_words=options.fuse_words, fuse_titles=options.fuse_titles
        )
        if not processes.is_first:
            return
    ahead = [differences(row.scores.test, rows[0].scores.test) for row in rows]
    notes = _notes(evaluator, sections.counts, titles=options.fuse_titles)
    findings = _findings(rows, ahead)

    def content() -> dict[str, Any]:
        return {
            "format": FORMAT,
            "data": {
                "documents": len(evaluator.documents),
                "pairs": len(evaluator.pairs),
                "similar": sum(evaluator.labels),
                "validation_pairs": len(evaluator.validation),
                "left_out": evaluator.left_out,
                "test_pairs_in_validation": evaluator.shared,
                "repeated": evaluator.pairs.repeated,
                "sections_left_out": dict(sections.counts),
            },
            "threshold": {"by": evaluator.by, "chosen_on": "validation" if len(evaluator.validation) else "test"},
            "bootstrap": {"resamples": evaluator.resamples, "seed": evaluator.seed, "confidence": 0.95},
            "skipped": [asdict(entry) for entry in skipped],
            "rows": [
                {**row.to_dict(), "more_than_words": {name: one.to_dict() for name, one in found.items()}}
                for row, found in zip(rows, ahead, strict=True)
            ],
        }

    def plot(path: str) -> None:
        from ..analysis.figures.pairs import plot_pairs

        similarities = {row.name: row.similarities.test for row in rows}
        plot_pairs(similarities, evaluator.labels, {row.name: row.scores.test.threshold for row in rows}, path)

    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, content()),
        csv=all_scores(rows).write_csv,
        markdown=lambda path: write_text(path, pair_markdown(rows, notes, findings, skipped)),
        scored=scored_pairs(evaluator, rows).write_csv,
        plot=plot,
    )
    if target is None:
        return
    for table in (score_table(rows), scores_by_length(rows)):
        if table.rows:
            table.print(target)
            target.print()
    same = [f"{row.name} gives the same vectors as {row.same_as}" for row in rows if row.same_as is not None]
    print_lines(target, [*notes, *(f"against TF-IDF, {line}" for line in findings), *same, *map(str, skipped)])
    list_left_out(target, report)
    OUTPUTS.report(options, target)


def _measure(
    evaluator: PairEvaluator, candidates: list[Candidate], processes: Processes, *, fuse_words: bool, fuse_titles: bool
) -> list[Row]:
    """Encode every candidate, and measure in the first process, with TF-IDF; those that give the same vectors once."""
    from ..evaluation.baselines import TFIDF
    from ..evaluation.title_mentions import TITLES
    from ..segmentation.spans import Coverage

    rows: list[Row] = []
    if processes.is_first:
        words = evaluator.tfidf()
        rows.append(Row(TFIDF, "words", words, evaluator.score(words)))
        if fuse_titles:
            titles = evaluator.titles()
            rows.append(Row(TITLES, "titles", titles, evaluator.score(titles)))
    for candidate, sharing in with_shared_passages(evaluator, candidates, processes):
        name, role, model = candidate.name, candidate.role, candidate.encoder.describe()
        coverage = Coverage()
        found = sharing.similarities(candidate.encoder, processes, totals=coverage)
        twin = next((row for row in rows[1:] if found.same_as(row.similarities)), None)
        if twin is not None:
            rows.append(replace(twin, name=name, role=role, model=model, same_as=twin.name))
        elif processes.is_first:
            rows.append(Row(name, role, found, evaluator.score(found), coverage, model))
            parts = {"words": evaluator.passage_words(candidate.encoder)} if fuse_words else {}
            if fuse_titles:
                parts["titles"] = titles
            if parts:
                fused, together = found.fused_with(*parts.values()), " + ".join((name, *parts))
                rows.append(Row(together, f"{role}, fused", fused, evaluator.score(fused), coverage, model))
    return rows


def _notes(evaluator: PairEvaluator, sections: Mapping[str, int], *, titles: bool) -> list[str]:
    """What has to be known to read the tables, one line each."""
    from ..evaluation.labels import plain_document

    pairs, similar = counted(len(evaluator.pairs), "test pair"), sum(evaluator.labels)
    best = {"f1": "F1", "accuracy": "accuracy"}[evaluator.by]
    chosen = f"{counted(len(evaluator.validation), 'validation pair')}"
    if not len(evaluator.validation):
        chosen = "the test pairs themselves: P, R, F1 and accuracy are upper bounds; give --validation-pairs"
    lines = [
        f"{pairs}, {similar:,} similar, of {counted(len(evaluator.documents), 'document')}",
        f"thresholds have the best {best} on {chosen}",
        f"intervals: 95 % of {counted(evaluator.resamples, 'bootstrap resample')} of the test pairs",
    ]
    reasons = {"unknown": "of documents that are not there", "with_themselves": "of a document with itself"}
    if left_out := [f"{count:,} {reasons[key]}" for key, count in evaluator.left_out.items() if count]:
        lines.append(f"pairs left out: {', '.join(left_out)}")
    if evaluator.shared:
        lines.append(f"{counted(evaluator.shared, 'test pair')} among the validation pairs as well")
    if repeated := evaluator.pairs.repeated:
        lines.append(f"{counted(repeated, 'test pair')} given before, and counted again")
    if titles and (untitled := sum(not plain_document(one).title for one in evaluator.documents)):
        lines.append(f"{counted(untitled, 'document')} without a title, which no text can name")
    for heading, count in sections.items():
        lines.append(f"{counted(count, 'section')} left out for the heading {heading!r}")
    return lines


def _findings(rows: list[Row], ahead: list[dict[str, Estimate]]) -> list[str]:
    """By how much every other row is better than TF-IDF."""
    return [
        f"{row.name}: "
        + ", ".join(f"{HEADINGS[name]} {signed_interval(found[name])}" for name in ("auc", "f1", "accuracy"))
        for row, found in zip(rows[1:], ahead[1:], strict=True)
        if row.same_as is None
    ]
