"""Counting beside its peers: CPU seconds (minimum of three) and peak memory, on the same data, in one run.

    python -m benchmarks.counting [--quick] [--folder FOLDER]

Every contender runs in a process of its own. Its data are loaded before the clock starts and before the peak of its
resident memory is reset, so both numbers are what the work itself takes. Targets are printed beside the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import counting_data as data
from .clock import seconds
from .counting_cores import compare

if TYPE_CHECKING:  # contenders load what they need themselves, so that its memory is theirs
    from simplexdp import Schema

REPEATS = 3
Work = Callable[[], object]


def schema() -> Schema:
    from simplexdp import Categories, Schema

    columns = [Categories(list(range(data.VALUES)), name=name) for name in data.NAMES]
    return Schema([*columns, Categories(list(range(data.CLASSES)), name="y")])


TABLES = [(name, "y") for name in data.NAMES]


def ours_codes(_: Path, rows: int) -> Work:
    from simplexdp.counting import count

    columns, declared = data.codes(rows), schema()
    return lambda: count(columns, declared, TABLES)


def sklearn_codes(_: Path, rows: int) -> Work:
    from sklearn.naive_bayes import CategoricalNB

    columns = data.codes(rows)
    target = columns.pop("y")
    matrix = np.asfortranarray(np.stack(list(columns.values()), axis=1))
    return lambda: CategoricalNB(min_categories=data.VALUES).fit(matrix, target)


def numpy_codes(_: Path, rows: int) -> Work:
    columns = data.codes(rows)
    target = columns.pop("y")
    cells, block = data.VALUES * data.CLASSES, 1 << 16

    def work() -> list[np.ndarray]:
        counts = [np.zeros(cells, np.int64) for _ in columns]
        for start in range(0, rows, block):
            offset = target[start : start + block] * data.VALUES
            for total, column in zip(counts, columns.values(), strict=True):
                total += np.bincount(offset + column[start : start + block], minlength=cells)
        return counts

    return work


def ours_parquet(folder: Path, rows: int) -> Work:
    from simplexdp.counting import count

    path, declared = data.codes_file(folder, rows), schema()
    return lambda: count(path, declared, TABLES)


def pyarrow_parquet(folder: Path, rows: int) -> Work:
    import pyarrow.parquet as pq

    path = data.codes_file(folder, rows)

    def work() -> None:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(batch_size=1 << 17):
                pass

    return work


def ours_strings(folder: Path, rows: int) -> Work:
    from simplexdp.counting import count
    from simplexdp.schema import Schema

    path = data.strings_file(folder, rows)
    words = {name: [f"{name}-value-{v}" for v in range(data.VALUES)] for name in data.NAMES}
    declared = Schema.of(**words, y=["no", "yes"])
    return lambda: count(path, declared, TABLES)


def sklearn_strings(folder: Path, rows: int) -> Work:
    import pandas as pd
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.preprocessing import OrdinalEncoder

    path = data.strings_file(folder, rows)

    def work() -> object:
        frame = pd.read_parquet(path)
        return CategoricalNB().fit(OrdinalEncoder().fit_transform(frame[data.NAMES]), frame["y"])

    return work


def ours_network(_: Path, rows: int) -> Work:
    import pandas as pd

    from simplexdp.counting import count
    from simplexdp.schema import Schema

    frame = pd.DataFrame(data.network_rows(rows))
    declared = Schema.of(**{name: list(range(data.STATES)) for name in data.NETWORK})
    families = [(name, *parents) for name, parents in data.NETWORK.items()]
    return lambda: count(frame, declared, families)


def pgmpy_network(_: Path, rows: int) -> Work:
    import logging
    import warnings

    import pandas as pd

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    from pgmpy.models import DiscreteBayesianNetwork

    frame = pd.DataFrame(data.network_rows(rows))
    edges = [(parent, name) for name, parents in data.NETWORK.items() for parent in parents]
    return lambda: DiscreteBayesianNetwork(edges).fit(frame)


def ours_folder(folder: Path, rows: int) -> Work:
    """Files of at most ten million rows, linked as often as it takes."""
    from simplexdp.counting import count

    one = min(rows, 10_000_000)
    path, declared = data.codes_file(folder, one), schema()
    return lambda: count([path] * (rows // one), declared, TABLES)


def ours_tables(_: Path, tables: int) -> Work:
    """Crossings of two features and the class: too large to be counted together."""
    from simplexdp.counting import count

    columns, declared = data.codes(1_000_000), schema()
    pairs = [(a, b, "y") for i, a in enumerate(data.NAMES) for b in data.NAMES[i + 1 :]][:tables]
    return lambda: count(columns, declared, pairs)


CONTENDERS = {
    work.__name__: work
    for work in (
        *(ours_codes, sklearn_codes, numpy_codes, ours_parquet, pyarrow_parquet, ours_strings),
        *(sklearn_strings, ours_network, pgmpy_network, ours_folder, ours_tables),
    )
}


def _memory(field: str) -> float:
    """MiB from the kernel's account of this process."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{field}:")[2].split()[0]) / 1024


def child(name: str, folder: Path, rows: int, repeats: int) -> dict[str, float]:
    work = CONTENDERS[name](folder, rows)
    import simplexdp.counting  # noqa: F401  # idle means: the same imports

    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    idle = _memory("VmRSS")
    return {"seconds": seconds(work, repeats), "peak": _memory("VmHWM") - idle}


def measure(name: str, folder: Path, rows: int, repeats: int = REPEATS) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.counting", "--child", name, "--rows", str(rows)]
    command += ["--folder", str(folder), "--repeats", str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(title: str, results: dict[str, dict[str, float]], targets: dict[str, tuple[str, float]]) -> list[str]:
    """Print a group; `targets` say of a peer how much less ("/", at least) or more ("×", at most) we take."""
    print(f"\n{title}")
    failed, ours = [], next(iter(results.values()))
    for name, result in results.items():
        line = f"  {name:<44}{result['seconds']:>9.3f} s CPU {result['peak']:>8.0f} MiB more at the peak"
        if name in targets:
            sign, bound = targets[name]
            ratio = result["seconds"] / ours["seconds"] if sign == "/" else ours["seconds"] / result["seconds"]
            met = ratio >= bound if sign == "/" else ratio <= bound
            word = "less CPU, target at least" if sign == "/" else "of it, target at most"
            line += f"   {ratio:.2f} × {word} {bound:g}: {'met' if met else 'MISSED'}"
            if not met:
                failed.append(f"{title}: {name}")
        print(line)
    return failed


def line(label: str, sizes: list[int], seconds: list[float]) -> list[str]:
    """How far the costs are from the straight line that fits their ratios best."""
    design = np.stack([np.ones(len(sizes)), sizes], axis=1) / np.array(seconds)[:, None]
    start, slope = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)[0]
    worst = max(abs(s / (start + slope * n) - 1) for n, s in zip(sizes, seconds, strict=True))
    points = ", ".join(f"{n:,}: {s:.3f} s" for n, s in zip(sizes, seconds, strict=True))
    print(f"\nCost in {label}: {points}; {start * 1e3:.1f} ms + {slope * 1e9:.2f} ns each")
    print(f"  at most {100 * worst:.1f} % from the line, target 15 %: {'met' if worst <= 0.15 else 'MISSED'}")
    return [] if worst <= 0.15 else [f"cost in {label}"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--folder", type=Path, help="where the data are kept; default: a temporary folder")
    parser.add_argument("--child", choices=CONTENDERS)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(child(options.child, options.folder, options.rows, options.repeats)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        return _run(options.folder or Path(temporary), 10 if options.quick else 1)


def _run(folder: Path, shrink: int) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    rows, fewer = 10_000_000 // shrink, 1_000_000 // shrink
    data.codes_file(folder, rows), data.strings_file(folder, fewer)
    failed = show(
        f"Naive Bayes tables, {rows:,} rows × 20 features × 10 values × 2 classes, cell numbers in memory",
        {
            "simplexdp": measure("ours_codes", folder, rows),
            "numpy.bincount in blocks": measure("numpy_codes", folder, rows),
            "scikit-learn CategoricalNB.fit": measure("sklearn_codes", folder, rows),
        },
        {"numpy.bincount in blocks": ("×", 1.2), "scikit-learn CategoricalNB.fit": ("/", 25)},
    )
    failed += show(
        f"The same {rows:,} rows from Parquet",
        {
            "simplexdp": measure("ours_parquet", folder, rows),
            "pyarrow, decoding alone": measure("pyarrow_parquet", folder, rows),
        },
        {"pyarrow, decoding alone": ("×", 1.6)},
    )
    failed += show(
        f"{fewer:,} rows of strings from Parquet",
        {
            "simplexdp": measure("ours_strings", folder, fewer),
            "pandas, OrdinalEncoder, CategoricalNB": measure("sklearn_strings", folder, fewer),
        },
        {"pandas, OrdinalEncoder, CategoricalNB": ("/", 10)},
    )
    failed += show(
        f"Conditional tables of a network of 7 nodes, {fewer:,} rows in pandas",
        {
            "simplexdp": measure("ours_network", folder, fewer),
            "pgmpy": measure("pgmpy_network", folder, fewer),
        },
        {"pgmpy": ("/", 10)},
    )
    sizes = [rows // 10, rows, rows * 10]
    found = [measure("ours_folder", folder, size, 3 if size < 10**8 else 1) for size in sizes]
    failed += line("rows", sizes, [result["seconds"] for result in found])
    peak = found[-1]["peak"]
    print(f"\nPeak on {sizes[-1]:,} rows of Parquet: {peak:.0f} MiB above idle, target 300: ", end="")
    print("met" if peak <= 300 else "MISSED")
    failed += [] if peak <= 300 else ["peak memory"]
    numbers = [40, 80, 160]
    failed += line("tables", numbers, [measure("ours_tables", folder, n)["seconds"] for n in numbers])
    failed += compare(folder, 4_000_000 // shrink, threads=2)
    print("\nAll targets met." if not failed else f"\nMissed: {'; '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
