"""How well does a head classify that is fitted and not trained, on vectors with words and without?

As ``graphdoc fit --classes`` does: centre and words are learned of the train documents without labels, then a head of
both (``graphdoc.recipes.fitted_head``). Passages are encoded once by MiniLM.

    python benchmarks/fitted_classifier.py [--work FOLDER] [--data-sets newsgroups20 wikispeedia] [--passages 8 8]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

from classification import DATA_SETS, METRICS, Bench, metrics_of
from frozen_passages import passages_of
from reporting import DATA, describe_machine, write_result

from graphdoc import DocumentEncoder
from graphdoc.evaluation import ClassificationEvaluator, LabelledDocuments
from graphdoc.evaluation.baselines import TFIDF_SVM
from graphdoc.recipes.fitted_head import fit_head

MEAN, CENTRED, WORDS = "mean of passages", "centred mean", "centred mean and words"


class FittedRows:
    """A data set whose passages are encoded, and the heads that are fitted to it.

    Args:
        name: the data set.
        work: folder of the vectors of its passages.
        data: folder of all data sets.
        passages: how many passages of a document are read.
    """

    def __init__(self, name: str, work: Path, data: Path, passages: int) -> None:
        self.bench, self._passages = Bench(name, work, data), passages
        both = [*self.bench.train, *self.bench.test]
        found = passages_of(work / name / f"mini_{passages}.npz", self.encoder(), both)
        of = {one.document.id: one for one in found}
        self.train, self.test = (
            [of[one.id] for one in part if one.id in of] for part in (self.bench.train, self.bench.test)
        )
        self._evaluator = ClassificationEvaluator(self.test)

    def encoder(self) -> DocumentEncoder:
        """MiniLM, with a mean over its passages."""
        return DocumentEncoder.from_pretrained("mini", lexical=None, centre=None, max_passages=self._passages)

    def row(self, row: str) -> dict[str, float]:
        """What a row measures on test, its accuracy on a fifth of train, and the seconds that fitting takes."""
        encoder, start = self.encoder(), perf_counter()
        if row != MEAN:
            encoder.fit(self.train, lexical=row == WORDS, show_progress=False)
        found = fit_head(encoder, LabelledDocuments.of(self.train), show_progress=False)
        seconds = perf_counter() - start
        assert found.held_out_accuracy is not None
        return {**metrics_of(self._evaluator(encoder)), "held_out": found.held_out_accuracy, "seconds": seconds}


def main() -> None:
    """Encode, fit, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/fitted_classifier"))
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--data-sets", nargs="+", choices=list(DATA_SETS), default=["newsgroups20", "wikispeedia"])
    parser.add_argument("--passages", nargs="+", type=int, default=[4, 8], help="passages of a document, by data set")
    options = parser.parse_args()
    if len(options.passages) != len(options.data_sets):
        parser.error(f"--passages needs {len(options.data_sets)} numbers, one for every data set")
    lines = [
        "# A classifier that is fitted, with words and without",
        "",
        f"`python benchmarks/fitted_classifier.py --data-sets {' '.join(options.data_sets)} "
        f"--passages {' '.join(map(str, options.passages))}`",
        "",
        describe_machine(),
        "",
        "MiniLM passages of 100 words, encoded once in bfloat16; `encoder.fit` and `fit_head` on the train documents. "
        "Beside accuracy on test stands what fitting measures itself on a fifth of train, by a head of the others. "
        "Seconds are those of fitting once passages are encoded.",
    ]
    for name, passages in zip(options.data_sets, options.passages, strict=True):
        rows = FittedRows(name, options.work, options.data, passages)
        table = {}
        for row in (MEAN, CENTRED, WORDS):
            table[row] = rows.row(row)
            print(name, row, table[row], flush=True)
        words = rows.bench.lexical()
        lines += [
            *("", f"## {name}", ""),
            f"{len(rows.train):,} documents to train on, {len(rows.test):,} test documents; the first {passages} "
            "passages of each.",
            "",
            "| | a fifth of train | accuracy | macro F1 | calibration error | seconds |",
            "|---|---|---|---|---|---|",
            f"| {TFIDF_SVM} | | {words['accuracy']:.3f} | {words['macro_f1']:.3f} | | |",
        ]
        for row, found in table.items():
            cells = [found["held_out"], *(found[metric] for metric in METRICS)]
            lines.append(f"| {row} | {' | '.join(f'{cell:.3f}' for cell in cells)} | {found['seconds']:.0f} |")
    print("\n".join(lines))
    write_result("fitted_classifier", "\n".join(lines))


if __name__ == "__main__":
    main()
