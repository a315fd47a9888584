"""Pretrain on sub-documents: ``accelerate launch pretrain/sub_documents.py --config configs/pretrain/FILE.yaml``.

The same as ``graphdoc pretrain``, as a script for launchers.
"""

from __future__ import annotations

import sys

from graphdoc.cli import main

if __name__ == "__main__":
    sys.exit(main(["pretrain", *sys.argv[1:]]))
