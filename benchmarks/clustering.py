"""Groups of an overview beside BERTopic's steps: ``clustering.py FOLDER PYTHON``, one with umap-learn and hdbscan."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from reporting import DATA
from sklearn.metrics import normalized_mutual_info_score as nmi

from graphdoc import DocumentEncoder, read_documents
from graphdoc.overview import Overview
from graphdoc.overview.neighbours import fit_vectors
from graphdoc.vectors.folder import read_vectors

BERTOPIC = """import sys, numpy, umap, hdbscan; steps = umap.UMAP(15, 5, min_dist=0, metric="cosine", random_state=0)
low = steps.fit_transform(numpy.load(sys.argv[1])); numpy.save(sys.argv[1], hdbscan.HDBSCAN(10).fit(low).labels_)"""
encoder, folder = DocumentEncoder.from_pretrained("mini", dtype="bfloat16", max_passages=4), sys.argv[1]
for name in ("newsgroups20/test", "wikispeedia/articles"):
    read = [one for one in read_documents(DATA / f"{name}.jsonl.gz") if isinstance(one.label, str)]
    labelled = [one for one in read if one.metadata["split"] == "test"]
    overview = Overview.from_documents(encoder, labelled, vectors=f"{folder}/{name}", max_passages=4)
    np.save(f"{folder}/file.npy", fit_vectors(read_vectors(f"{folder}/{name}")[1], 512, overview.words))
    subprocess.run([sys.argv[2], "-c", BERTOPIC, f"{folder}/file.npy"], check=True)
    for way, found in (("overview", overview.group_of), ("BERTopic", np.load(f"{folder}/file.npy"))):
        row = f"| {name} | {way} | {found.max() + 1} | {(found < 0).mean():.0%}"
        print(row, f"| {nmi([one.label for one in labelled], found):.3f} |")
