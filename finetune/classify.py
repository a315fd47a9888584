"""Train a classifier: ``accelerate launch finetune/classify.py --config configs/finetune/FILE.yaml``.

The same as ``graphdoc finetune classify``, as a script for launchers.
"""

from __future__ import annotations

import sys

from graphdoc.cli import main

if __name__ == "__main__":
    sys.exit(main(["finetune", "classify", *sys.argv[1:]]))
