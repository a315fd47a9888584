"""Does a mean of the weights before and after training on sentence pairs rank better than either?

Training on pairs makes MiniLM worse at ranking articles (see ``sentence_pairs.py``). Weights between those of the
start and those of the end (Wortsman et al. 2022, https://arxiv.org/abs/2109.01903) keep some of both. The share of the
end is chosen on dev articles, and measured on test articles.

    python benchmarks/sentence_pairs_interpolated.py [--rows "loss of SDR"] [--seeds 1] [--work FOLDER]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from document_ranking import wikispeedia_cut, wikispeedia_dev
from reporting import ROOT, describe_machine, write_result
from sentence_pairs import Runs, SentencePairStudy, folder_name, spread

from graphdoc import DocumentEncoder
from graphdoc.runtime.files import write_text
from graphdoc.settings.loading import load_settings

SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
WAYS = ("document", "sentences", "flat")
CHOSEN_BY, MEASURE = "sentences", "nDCG@10"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, mix, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "studies" / "sdr.yaml")
    parser.add_argument("--work", type=Path, default=Path("runs/sentence-pairs"))
    parser.add_argument("--rows", nargs="+", metavar="ROW", default=["loss of SDR"])
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="precision when measuring")
    parser.add_argument("--seeds", type=int, default=1, metavar="N")
    options = parser.parse_args(arguments)
    study = load_settings(SentencePairStudy, options.config, [])
    runs = Runs(study, options.work, options.dtype)
    runs.write_articles()
    parts = [
        "# Weights between the start and the end of training on sentence pairs",
        f"`python benchmarks/sentence_pairs_interpolated.py --dtype {options.dtype} --seeds {options.seeds}`",
        describe_machine(),
        f"nDCG@10 by share of the trained weights; {options.seeds} seed(s).",
    ]
    for row in options.rows:
        found = [scores(runs, row, seed) for seed in range(options.seeds)]
        parts += [f"## {row}", table(found)]
    print(write_result("sentence_pairs_interpolated", "\n\n".join(parts)))


def scores(runs: Runs, row: str, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """nDCG@10 by set, share and way; kept beside the run."""
    folder = runs.work / folder_name(row) / str(seed)
    path = folder / "interpolated.json"
    content = json.loads(path.read_text()) if path.is_file() else {}
    runs.trained(row, seed)
    for name, made in (("dev", wikispeedia_dev), ("test", wikispeedia_cut)):
        for share in SHARES:
            if str(share) in content.setdefault(name, {}):
                continue
            encoder = mixed(runs, folder, share)
            measured = Runs(runs.study, runs.work, runs.dtype)
            measured.rank(made())
            means = measured.measure(encoder, folder / "mixed" / name / str(share))
            content[name][str(share)] = {way: means[way][MEASURE] for way in WAYS}
            write_text(path, json.dumps(content))
            print(row, seed, name, share, content[name][str(share)], flush=True)
    return content


def mixed(runs: Runs, folder: Path, share: float) -> DocumentEncoder:
    """The model of a run with so much of its own weights, and the rest from where it started."""
    place = folder / "mixed" / f"model-{share}"
    if not (place / "config.json").is_file():
        end = DocumentEncoder.from_pretrained(folder / "model", dtype="float32")
        start = DocumentEncoder.from_backbone(
            "sentence-transformers/all-MiniLM-L6-v2",
            dtype="float32",
            pooling="mean",
            projection_size=None,
            graph_layers=0,
            readout="mean",
        )
        before = start.model.state_dict()
        with torch.no_grad():
            for name, weights in end.model.state_dict().items():
                if weights.is_floating_point():
                    weights.lerp_(before[name].to(weights), 1 - share)
        end.save_pretrained(place)
    return DocumentEncoder.from_pretrained(place, dtype=runs.dtype, max_passages=None)


def table(found: Sequence[Mapping[str, Mapping[str, Mapping[str, float]]]]) -> str:
    """Scores by share as Markdown; the share that is best on dev is bold."""
    best = max(SHARES, key=lambda share: sum(one["dev"][str(share)][CHOSEN_BY] for one in found))
    columns = [f"{name}, {way}" for name in ("dev", "test") for way in WAYS]
    lines = [f"| share of the end | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for share in SHARES:
        cells = [spread([one[name][str(share)][way] for one in found]) for name in ("dev", "test") for way in WAYS]
        lines.append(f"| {f'**{share:g}**' if share == best else f'{share:g}'} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
