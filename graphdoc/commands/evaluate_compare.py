"""graphdoc evaluate compare: do document vectors tell similar pairs of documents from others?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..errors import EvaluationError
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_image,
    fill_outputs,
    positive,
    read_many,
    whole,
    write_json,
)
from .comparison_tables import Measured, Row, print_tables, to_csv, to_json, to_markdown, to_scored_pairs
from .measured_models import (
    Candidate,
    add_baseline_arguments,
    check_baselines,
    load_candidates,
    with_passages,
    with_shared_passages,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..documents.document import Document
    from ..documents.readers import ReadingReport
    from ..documents.readers.left_out_sections import LeftOutSections
    from ..evaluation import PairEvaluator

NAME = "compare"
HELP = "pairs that are similar or not: F1, accuracy, AUC, average precision"
DESCRIPTION = """Compare the documents of labelled pairs by the cosine of their vectors, and measure how well it tells
pairs that belong together from pairs that do not: AUC and average precision, and precision, recall, F1 and accuracy at
a threshold. The threshold is the best one on the validation pairs; without them it is the best one on the test pairs
themselves, so that these four are upper bounds. All with 95 % bootstrap intervals over pairs, and by length.

TF-IDF cosine, which goes by words alone, is measured on the same pairs, and so is the backbone of every model as it
was before training. A file of pairs has two ids and 1 (similar) or 0 in a line, with tabs between."""
EPILOG = """examples:
  graphdoc evaluate compare --data corpus.jsonl --pairs test.tsv --validation-pairs dev.tsv --model runs/a/model
  graphdoc evaluate compare --data papers.jsonl.gz --pairs test.tsv --leave-out-section Abstract --output scores/
  graphdoc evaluate compare --data papers/ --pairs test.tsv --threshold-by accuracy --json scores.json
"""


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
    measures.add_argument("--seed", type=whole, default=0, metavar="N", help="draws the resamples (default: 0)")
    add_baseline_arguments(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write the tables as CSV")
    output.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown")
    output.add_argument("--scored", metavar="FILE", help="write every pair with its similarities as CSV")
    output.add_argument("--plot", metavar="FILE", help="draw ROC curves and similarities (.png, .svg, .pdf)")
    output.add_argument(
        "--output", metavar="FOLDER", help="write scores.json, scores.csv, scores.md, pairs.csv and pairs.png there"
    )
    add_model_arguments(parser, several=True)
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
    files = {"json": "scores.json", "csv": "scores.csv", "markdown": "scores.md", "scored": "pairs.csv"}
    fill_outputs(options, *options.data, options.pairs, options.validation_pairs, **files, plot="pairs.png")
    check_image(options.plot)

    from ..documents.readers import ReadingReport
    from ..documents.readers.left_out_sections import LeftOutSections
    from ..evaluation import PairEvaluator, Pairs, read_pair_file
    from ..evaluation.pairs import LENGTHS

    pairs = read_pair_file(options.pairs)
    validation = Pairs(()) if options.validation_pairs is None else read_pair_file(options.validation_pairs)
    report = ReadingReport()
    sections = LeftOutSections(tuple(dict.fromkeys(options.leave_out_section)))
    wanted = {id for part in (pairs, validation) for pair in part for id in (pair.a, pair.b)}
    documents = [document for document in _read(options, sections, report) if document.id in wanted]
    unused = [heading for heading, count in sections.counts.items() if not count]
    if unused:
        raise EvaluationError(f"no document has a section {unused[0]!r}; check --leave-out-section")
    compare = partial(
        PairEvaluator,
        pairs=pairs,
        validation=validation,
        by=options.threshold_by,
        unknown="leave_out" if options.on_error == "skip" else "stop",
        lengths=LENGTHS if options.lengths is None else options.lengths,
        resamples=options.resamples,
        seed=options.seed,
    )
    # Pairs that nothing can be measured on are told before any model is loaded.
    comparison = compare(documents)
    skipped: list[dict[str, str]] = []
    candidates = load_candidates(options, skipped)
    if options.on_error == "skip":
        comparison = compare(with_passages(documents, candidates[0].encoder, report))
    measured = Measured(comparison, _measure(comparison, candidates), skipped, sections.counts, report)
    if options.json:
        write_json(options.json, to_json(measured))
    for path, content in ((options.csv, to_csv), (options.markdown, to_markdown), (options.scored, to_scored_pairs)):
        if path:
            from ..runtime.files import write_text

            write_text(path, content(measured))
    if options.plot:
        from ..analysis.figures.pairs import plot_pairs

        shown = {row.name: row for row in measured.rows}
        plot_pairs(
            {name: row.similarities.test for name, row in shown.items()},
            comparison.labels,
            {name: row.scores.test.threshold for name, row in shown.items()},
            options.plot,
        )
    if options.json != "-":
        print_tables(measured, (options.json, options.csv, options.markdown, options.scored, options.plot))


def _read(options: argparse.Namespace, sections: LeftOutSections, report: ReadingReport) -> Iterator[Document]:
    """The documents, one at a time, without the sections that are to be left out."""
    documents = read_many(options.data, options, report)
    return sections.without(documents) if sections.headings else documents


def _measure(comparison: PairEvaluator, candidates: list[Candidate]) -> list[Row]:
    """Measure TF-IDF and all encoders; those that give the same vectors once."""
    from ..evaluation.baselines import TFIDF
    from ..segmentation.coverage import Coverage

    words = comparison.tfidf()
    rows = [Row(TFIDF, "words", words, comparison.score(words))]
    first = len(rows)
    for candidate, measuring in with_shared_passages(comparison, candidates):
        if measuring is None:
            assert candidate.same_as is not None
            twin = rows[first + candidate.same_as]
            model = candidate.encoder.describe()
            rows.append(replace(twin, name=candidate.name, role=candidate.role, model=model, same_as=twin.name))
            continue
        totals = Coverage()
        found = measuring.similarities(candidate.encoder, totals=totals)
        scores = comparison.score(found)
        model = candidate.encoder.describe()
        rows.append(Row(candidate.name, candidate.role, found, scores, totals.to_dict(), model))
    return rows
