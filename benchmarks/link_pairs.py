"""Pairs of articles as CoLDE builds its WIKI set (section 4.1.1): similar if more than half of their links agree.

Jaccard similarity of outgoing links; articles with one similar article alone are left out. Articles are drawn into
three parts; every similar pair of a part stands beside one of its first article and another that is not similar.

    python benchmarks/link_pairs.py links.tsv.gz --output wiki/
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from graphdoc.runtime.files import write_text

ABOVE = 0.5
PARTS = {"train": 0.5, "dev": 0.2, "test": 0.3}


def similar_articles(links: Path) -> list[tuple[str, str]]:
    """Pairs of articles whose outgoing links are alike; a line has the ids of both ends of a link."""
    outgoing, sources = defaultdict[str, set[str]](set), defaultdict[str, list[str]](list)
    with gzip.open(links, "rt", encoding="utf-8") as stream:
        for source, target in (line.split() for line in stream):
            if target not in outgoing[source]:
                outgoing[source].add(target)
                sources[target].append(source)
    common = Counter(pair for row in sources.values() for pair in combinations(sorted(row), 2))
    pairs = [pair for pair, n in sorted(common.items()) if n > ABOVE * len(outgoing[pair[0]] | outgoing[pair[1]])]
    degrees = Counter(article for pair in pairs for article in pair)
    return [pair for pair in pairs if min(degrees[article] for article in pair) > 1]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("links", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    pairs, draw = similar_articles(options.links), np.random.default_rng(0)
    similar = {frozenset(pair) for pair in pairs}
    articles = draw.permutation(sorted({article for pair in pairs for article in pair})).tolist()
    ends = [0, *(np.cumsum(list(PARTS.values())) * len(articles)).round().astype(int)]
    for part, start, end in zip(PARTS, ends, ends[1:], strict=False):
        inside, lines = articles[start:end], []
        for first, second in (pair for pair in pairs if {*pair} <= {*inside}):
            others = [one for one in inside if one != first and frozenset((first, one)) not in similar]
            lines += [f"{first}\t{second}\t1\n", f"{first}\t{draw.choice(others)}\t0\n"]
        write_text(options.output / f"pairs_{part}.tsv", "".join(lines))
        print(f"{part}: {len(inside):,} articles, {len(lines) // 2:,} similar pairs and as many others")


if __name__ == "__main__":
    main()
