"""A million hostile inputs: `python -m benchmarks.fuzz [--cases 1000000] [--target NAME]`.

With atheris installed (`pip install atheris`) the search is guided by the lines that inputs reach; without it inputs
are changed at random. Each target runs in a process of its own; a failing input is printed and kept. Exit code 1 if
any target fails.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
SHARES = {
    "schema_yaml": 0.25,
    "schema_json": 0.25,
    "release_file": 0.2,
    "release_body": 0.1,
    "model_body": 0.05,
    "parquet": 0.1,
    "ledger": 0.03,
    "csv": 0.01,
    "command": 0.01,
}
"""How the cases are divided: most go where a case takes microseconds."""


def run_guided(target: str, cases: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["simplexdp"]):
        import fuzz_targets as fuzz

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return change(target, data, rng)[:most]

    kept = tempfile.mkdtemp(prefix=f"fuzz-{target}-")
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(fuzz.seeds(target)):
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
        atheris.Setup([sys.argv[0], *options, corpus], fuzz.TARGETS[target], custom_mutator=mutate)
        atheris.Fuzz()  # does not return


def run_random(target: str, cases: int) -> None:
    import fuzz_targets as fuzz

    rng = random.Random(1)
    for _ in range(cases):
        data = rng.choice(fuzz.seeds(target))
        for _ in range(rng.randint(1, 4)):
            data = change(target, data, rng)
        try:
            fuzz.TARGETS[target](data)
        except BaseException:
            print(f"failing input: {data!r}", file=sys.stderr)
            raise


def change(target: str, data: bytes, rng: random.Random) -> bytes:
    """One change of the tests' own kind: values in JSON, pieces of syntax elsewhere."""
    import fuzz_targets

    if target.endswith(("_body", "_json")) and rng.random() < 0.7:
        try:
            return fuzz_targets.swap(data, rng.random(), rng.choice(fuzz_targets.HOSTILE), remove=rng.random() < 0.2)
        except (ValueError, TypeError, RecursionError):
            pass
    piece = rng.choice(fuzz_targets.PIECES) if rng.random() < 0.7 else rng.randbytes(rng.randint(1, 4))
    return fuzz_targets.edit(data, rng.random(), rng.randint(0, 6), piece)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--target", choices=SHARES)
    parser.add_argument("--run", choices=SHARES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        try:
            import atheris  # noqa: F401
        except ImportError:
            run_random(given.run, given.cases)
        else:
            run_guided(given.run, given.cases)
        return 0
    failed = []
    for target in [given.target] if given.target else SHARES:
        cases = given.cases if given.target else max(1, round(given.cases * SHARES[target]))
        start = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.fuzz", "--run", target, "--cases", str(cases)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
        verdict = "ok" if done.returncode == 0 else "FAILED"
        print(f"{target:14} {cases:>9,} cases  {time.perf_counter() - start:7.0f} s  {verdict}", flush=True)
        if done.returncode:
            failed.append(target)
            print(done.stderr[-6000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
