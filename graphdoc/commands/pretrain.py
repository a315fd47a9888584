"""graphdoc pretrain: train a document model without labels."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from ..plain_text import one_line
from .summaries import console, plain

NAME = "pretrain"
HELP = "train a document model without labels"
DESCRIPTION = """Train a document model without labels, by telling the halves of a document from those of others.

All settings are in a YAML file; configs/pretrain/ holds recipes to start from. What follows the options as key=value
replaces what the file says. The run's folder (output) gets checkpoints, the log, the settings and, in its folder
model, the trained model for --model of all other commands.

A run that was interrupted goes on from its last checkpoint with --resume; it then ends as if nothing had been. Several
processes train together under accelerate launch or torchrun, with the same batches and the same result."""
EPILOG = """examples:
  graphdoc pretrain --config configs/pretrain/quickstart.yaml
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml corpus.source=papers/ output=runs/papers
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml corpus.source=papers/ output=runs/papers --resume
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml --print
  torchrun --nproc-per-node 8 pretrain/sub_documents.py --config configs/pretrain/graph_roberta.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="*", help="settings that replace those of the file")
    parser.add_argument("--config", metavar="FILE", required=True, help="settings of the run, as YAML")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the output folder")
    parser.add_argument("--device", help="cpu, cuda, ... (default: an accelerator if there is one)")
    parser.add_argument("--print", action="store_true", help="print all settings, defaults too, and do nothing")


def run(options: argparse.Namespace) -> None:
    """Train, and say where the model is."""
    from ..training.configuration import as_values, load_settings
    from ..training.pretraining_settings import PretrainingSettings

    settings = load_settings(PretrainingSettings, options.config, options.settings)
    target = console()
    if options.print:
        import yaml

        target.print(
            yaml.safe_dump(as_values(settings), sort_keys=False, allow_unicode=True), markup=False, highlight=False
        )
        return
    from ..training.pretraining import pretrain

    model = pretrain(settings, resume=options.resume, device=options.device)
    if os.environ.get("RANK", "0") != "0":
        return
    _tell_results(settings.folder)
    target.print(plain(f"wrote {model}"))
    target.print(plain(f"try it:  graphdoc encode DOCUMENTS --model {shlex.quote(one_line(str(model)))}"))


def _tell_results(folder: Path) -> None:
    """A table of what was measured before and after."""
    from ..training.run_folder import read_results
    from .summaries import table

    results = read_results(folder)
    before, after = results.get("before", {}), results.get("after", {})
    if not after:
        return
    rows = table(("measured", "left"), ("before", "right"), ("after", "right"))
    for name, value in after.items():
        rows.add_row(plain(name), f"{before[name]:.4f}" if name in before else "", f"{value:.4f}")
    console().print(rows)
