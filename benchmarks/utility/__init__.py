"""Loss of every method at equal privacy: histograms, naive Bayes and networks, one command, one table.

`python -m benchmarks utility [--quick] [--part histograms] [--out FILE.csv]`. Seeds are paired: every method sees the
same tables and splits, and methods with the same noise see the same noise. Nothing here is a private release.
"""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path
from typing import get_args

from .table import Part, Row, pivot, read, write


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
    found: list[Row] = []
    for part in options.part or get_args(Part):
        began = time.perf_counter()
        module = importlib.import_module(f"benchmarks.utility.{part.replace('-', '_')}")
        rows: list[Row] = [row for row in saved if row.part == part] if saved else list(module.rows(options.quick))
        if not rows:
            continue
        print(f"\n=== {part}", *pivot(rows), *module.summary(rows), sep="\n")
        print(f"{len(rows)} rows in {time.perf_counter() - began:.0f} s", flush=True)
        found += rows
        if options.out:
            write(found, options.out)
