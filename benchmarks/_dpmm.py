"""Runs a rival from dpmm in an environment of its own: `python _dpmm.py IN.npz OUT.npz METHOD EPSILON DELTA SEED`.

It reads training and test cell numbers, writes synthetic ones, ln P of the test rows, processor time and memory.
Nothing here imports simplexdp, so that the rival's packages may be whatever it needs.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np
import pandas as pd

SETTINGS = {"aim": {"max_model_size": 80, "n_jobs": 1}, "mst": {"n_jobs": 1}, "privbayes": {"n_jobs": 1}}
"""The sizes that their authors take; one processor, as ours."""


def main() -> None:
    """Fit, draw, score."""
    source, out, method, epsilon, delta, seed = sys.argv[1:]
    given = np.load(source)
    train, test, sizes = given["train"], given["test"], given["sizes"]
    names = [f"c{i}" for i in range(len(sizes))]
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    kind = {"aim": AIMGM, "mst": MSTGM, "privbayes": PrivBayesGM}[method]
    state = np.random.RandomState(int(seed))
    np.random.seed(int(seed))  # noqa: NPY002  # what the rival draws from
    before = time.process_time()
    model = kind(epsilon=float(epsilon), delta=float(delta), random_state=state, **SETTINGS[method])
    model.set_domain({name: int(size) for name, size in zip(names, sizes, strict=True)})
    model.set_random_state(state)
    model.fit(pd.DataFrame(train, columns=names))
    spent = time.process_time() - before
    drawn = model.generate(n_records=len(train))[names].to_numpy()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    try:
        log = log_likelihoods(model.generator, pd.DataFrame(test, columns=names), sizes)
    except Exception as error:
        print(f"no log-loss of {method}: {type(error).__name__}: {error}", file=sys.stderr)
        log = np.full(len(test), np.nan)
    np.savez(out, drawn=drawn, log=log, seconds=spent, memory=memory)


def log_likelihoods(generator: Any, test: Any, sizes: Any) -> Any:
    """ln P of each test row under the graphical model; cells that were merged share theirs evenly."""
    from dpmm.models.base.mbi import Dataset, Domain

    graph, names = generator.model, list(test.columns)
    total = np.zeros(len(test))
    codes = test
    if generator.compressor is not None:
        domain = Domain(names, [int(size) for size in sizes])
        codes = generator.compressor.transform(Dataset(test, domain)).df
        most = max(sizes)
        grid = pd.DataFrame({name: np.arange(most) % size for name, size in zip(names, sizes, strict=True)})
        cells = generator.compressor.transform(Dataset(grid, domain)).df
        for name, size in zip(names, sizes, strict=True):
            merged = np.bincount(cells[name].to_numpy()[: int(size)], minlength=int(cells[name].max()) + 1)
            total -= np.log(merged[codes[name].to_numpy()])
    for clique in graph.cliques:
        potential = graph.potentials[clique]
        attributes = potential.domain.attrs
        total += potential.values[tuple(codes[name].to_numpy() for name in attributes)]
    return total - graph.belief_propagation(graph.potentials, logZ=True)


if __name__ == "__main__":
    main()
