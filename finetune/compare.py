"""Train a model to compare documents: ``accelerate launch finetune/compare.py --config configs/finetune/FILE.yaml``.

The same as ``graphdoc finetune compare``, as a script for launchers.
"""

from __future__ import annotations

import sys

from graphdoc.cli import main

if __name__ == "__main__":
    sys.exit(main(["finetune", "compare", *sys.argv[1:]]))
