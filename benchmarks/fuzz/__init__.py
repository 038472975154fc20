"""A million hostile inputs: `python -m benchmarks fuzz [--cases 1000000] [--target NAME] [--random]`.

With atheris installed (`pip install atheris`) the search is guided by the lines that inputs reach; without it, or with
--random, inputs are changed at random. Each target runs in a process of its own; a failing input is printed. Exit code
1 if any target fails.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .changes import change

ROOT = Path(__file__).resolve().parents[2]
SHARES = {
    "schema_yaml": 0.15,
    "schema_json": 0.15,
    "release_file": 0.15,
    "release_body": 0.05,
    "model_body": 0.06,
    "network_body": 0.01,
    "bif": 0.07,
    "ledger_chain": 0.07,
    "ledger": 0.03,
    "parquet": 0.07,
    "counts": 0.06,
    "sql": 0.01,
    "csv": 0.004,
    "packed": 0.003,
    "rows_json": 0.003,
    "rows": 0.1,
    "command": 0.01,
}
"""How the cases are divided: most go where a case takes microseconds."""


def run_guided(target: str, cases: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["simplexdp"]):
        from . import targets

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return change(target, data, rng)[:most]

    kept = tempfile.mkdtemp(prefix=f"fuzz-{target}-")
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(targets.seeds(target)):
            Path(corpus, str(number)).write_bytes(seed)
        options = [
            f"-runs={cases}",
            "-max_len=60000",
            "-verbosity=0",
            "-timeout=60",
            f"-artifact_prefix={kept}/",
            "-rss_limit_mb=4000",
            "-seed=1",
        ]
        atheris.Setup([sys.argv[0], *options, corpus], targets.TARGETS[target], custom_mutator=mutate)
        atheris.Fuzz()  # does not return


def run_random(target: str, cases: int, seed: int) -> None:
    from . import targets

    rng = random.Random(seed)
    for _ in range(cases):
        data = rng.choice(targets.seeds(target))
        for _ in range(rng.randint(1, 4)):
            data = change(target, data, rng)
        try:
            targets.TARGETS[target](data)
        except BaseException:
            print(f"failing input: {data!r}", file=sys.stderr)
            raise


def has_atheris() -> bool:
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--target", choices=SHARES)
    parser.add_argument("--random", action="store_true", help="changes at random even with atheris")
    parser.add_argument("--seed", type=int, default=1, help="of the random changes")
    parser.add_argument("--run", choices=SHARES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    guided = has_atheris() and not given.random
    if given.run:
        if guided:
            run_guided(given.run, given.cases)
        else:
            run_random(given.run, given.cases, given.seed)
        return
    print("guided by atheris" if guided else "random changes", flush=True)
    options = ["--seed", str(given.seed), *(["--random"] if given.random else [])]
    failed, done = [], 0
    for target in [given.target] if given.target else SHARES:
        cases = given.cases if given.target else max(1, round(given.cases * SHARES[target]))
        start = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks", "fuzz", "--run", target, "--cases", str(cases), *options]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
        verdict = "ok" if found.returncode == 0 else "FAILED"
        print(f"{target:14} {cases:>9,} cases  {time.perf_counter() - start:7.0f} s  {verdict}", flush=True)
        done += cases
        if found.returncode:
            failed.append(target)
            print(found.stdout[-3000:], found.stderr[-3000:], flush=True)
    print(f"{'in all':14} {done:>9,} cases  {', '.join(failed) or 'nothing'} failed", flush=True)
    if failed:
        sys.exit(1)
