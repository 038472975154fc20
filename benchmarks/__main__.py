"""Run every benchmark module of this folder, or the ones named: `python -m benchmarks [name ...] [--quick]`."""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def available() -> dict[str, str]:
    """The source of each module that has a `main`."""
    paths = [*FOLDER.glob("[!_]*.py"), *FOLDER.glob("[!_]*/__init__.py")]
    sources = {path.stem if path.parent == FOLDER else path.parent.name: path.read_text("utf-8") for path in paths}
    return {name: source for name, source in sorted(sources.items()) if "\ndef main(" in source}


def run(name: str, source: str, quick: bool, further: list[str]) -> None:
    """Call its `main`; `quick` is a keyword or an option of its own command line, if it has either."""
    module_main = importlib.import_module(f"benchmarks.{name}").main
    if "quick" in inspect.signature(module_main).parameters:
        module_main(quick=quick)
        return
    sys.argv = [f"benchmarks.{name}", *(["--quick"] if quick and '"--quick"' in source else []), *further]
    module_main()


def main() -> None:
    """Parse the command line and run."""
    modules = available()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed as ratios, measured in one run.")
    parser.add_argument("name", nargs="*", help=f"any of {', '.join(modules)}; all of them if none is given")
    parser.add_argument("--quick", action="store_true", help="less work, where a benchmark offers it")
    chosen, further = parser.parse_known_args()
    unknown = sorted(set(chosen.name) - set(modules))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(modules)}")
    if further and len(chosen.name) != 1:
        parser.error(f"{' '.join(further)}: such options are for one benchmark, named first")
    for name in chosen.name or modules:
        print(f"\n== {name}", flush=True)
        run(name, modules[name], chosen.quick, further)


if __name__ == "__main__":
    main()
