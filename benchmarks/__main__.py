"""Run every benchmark module of this folder, or the ones named: `python -m benchmarks [name ...] [--quick]`."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil

import benchmarks


def main() -> None:
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name[0] != "_")
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed as ratios, measured in one run.")
    parser.add_argument("name", nargs="*", help=f"any of {', '.join(names)}; all of them if none is given")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, where a benchmark offers it")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.name) - set(names))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(names)}")
    for name in chosen.name or names:
        run = importlib.import_module(f"benchmarks.{name}").main
        print(f"\n== {name}")
        run(**({"quick": True} if chosen.quick and "quick" in inspect.signature(run).parameters else {}))


if __name__ == "__main__":
    main()
