"""What small jobs cost beside `import numpy`, in CPU time of whole processes with compiled modules: 4 × is wanted."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

JOBS = {
    "simplexdp --help": "from simplexdp.cli import run; run(['--help'])",
    "a first release": (
        "from simplexdp import Budget, release; release([119, 74, 618], budget=Budget(epsilon=1, delta=1e-6))"
    ),
}
WANTED = 4.0


def least(code: str, environment: dict[str, str], repeats: int = 7) -> float:
    """The least CPU time of some runs, after one that compiles."""
    times = []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times[1:])


def main() -> None:
    with tempfile.TemporaryDirectory() as compiled:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled, "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        unit = least("import numpy", environment)
        for name, code in JOBS.items():
            found = least(code, environment) / unit
            print(f"{name:18} {found:4.1f} x the CPU of `import numpy` ({unit:.3f} s); wanted: at most {WANTED:g}")


if __name__ == "__main__":
    main()
