"""Loss of every method at equal privacy: histograms, naive Bayes and networks, one command, one table.

`python -m benchmarks utility [--quick] [--part histograms] [--out FILE.csv]`. Seeds are paired: every method sees the
same tables and splits, and methods with the same noise see the same noise. Nothing here is a private release.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import get_args

from .table import Part, Row, pivot, read, written


def main(argv: list[str] | None = None) -> None:
    """Run the parts asked for; each has `rows(quick)` and `summary(rows)`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks utility", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases and seeds: a few minutes")
    parser.add_argument("--part", action="append", choices=get_args(Part), help="repeatable; all by default")
    parser.add_argument("--out", type=Path, help="write the table as CSV")
    parser.add_argument("--read", type=Path, action="append", help="take the table from such a file, do not run")
    parser.add_argument("--markdown", action="store_true", help="with --read: print the tables of the docs")
    options = parser.parse_args(argv)
    saved = [row for path in options.read or () for row in read(path)]
    if options.markdown:
        from .markdown import tables

        print(*tables(saved), sep="\n")
        return
    parts: list[Part] = options.part or list(get_args(Part))
    modules = {part: importlib.import_module(f"benchmarks.utility.{part.replace('-', '_')}") for part in parts}
    rows: Iterable[Row] = saved or (row for module in modules.values() for row in module.rows(options.quick))
    if options.out:
        rows = written(rows, options.out)
    began = time.perf_counter()
    for part, own in groupby(rows, key=lambda row: row.part):
        if part not in modules:
            continue
        found = list(own)
        print(f"\n=== {part}", *pivot(found), *modules[part].summary(found), sep="\n")
        print(f"{len(found)} rows in {time.perf_counter() - began:.0f} s", flush=True)
        began = time.perf_counter()
