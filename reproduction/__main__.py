"""`python -m reproduction`: the paper's experiments, figures and tables."""

from __future__ import annotations

from simplexdp.cli import main

from .command import program

if __name__ == "__main__":
    main(program, "python -m reproduction")
