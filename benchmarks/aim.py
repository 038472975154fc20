"""AIM (McKenna, Mullins, Sheldon and Miklau 2022) as the package dpmm has it, run by an interpreter of its own.

    python aim.py JOB_FOLDER

`job.json` in the folder says the workload, ρ and the settings, `codes.npz` has the cell numbers; the estimated counts
of the wanted tables are written to `tables.npz`. This file imports nothing of simplexdp: dpmm needs other versions of
NumPy and pandas. dpmm's AIM is the authors' code, with their defaults unless the job says otherwise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(folder: Path) -> None:
    """One fit."""
    import numpy as np
    import pandas as pd
    from dpmm.models.aim import AIM  # of the other interpreter

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    codes = np.load(folder / "codes.npz")
    frame = pd.DataFrame({name: codes[name] for name in codes.files})
    np.random.seed(job["seed"])  # noqa: NPY002  # dpmm draws its noise from the global generator
    mechanism = AIM(
        epsilon=1.0,
        delta=1e-9,
        prng=np.random.RandomState(job["seed"]),
        max_model_size=job["model_size"],
        n_iters=job["iterations"],
        rounds=job["rounds"],
        domain=job["sizes"],
        n_jobs=1,
    )
    mechanism.rho = job["rho"]
    mechanism.fit(frame, W=[(tuple(names), 1.0) for names in job["tables"]])
    found = {str(i): mechanism.model.project(tuple(names)).datavector() for i, names in enumerate(job["tables"])}
    np.savez(folder / "tables.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
