"""What adaptivity costs: the noise a ledger asks for, relative to the same releases fixed in advance."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simplexdp import Budget, Dirichlet, Gaussian, Laplace, Ledger, PrivacyLoss
from simplexdp.accounting.filters import Filter, filter_for, renyi_filter
from simplexdp.ledger import fingerprint
from simplexdp.ledger.chain import Entry, _append

from .clock import seconds

DELTA = 1e-6
CHARGE = 5e-3
"""Seconds that a charge may take."""
OPENED = 2.0
"""Seconds that 10⁵ entries may take to be opened."""
Losses = Callable[[float], Sequence[PrivacyLoss]]
"""The losses of a workload at a noise scale."""


def spends(filter_: Filter, losses: Sequence[PrivacyLoss]) -> bool:
    """Whether all of them are admitted, one after the other."""
    left, slack = Fraction(filter_.total), Fraction(filter_.slack)
    for loss in losses:
        price = filter_.price(loss, left)
        if not price.fits or Fraction(price.cost) > left or Fraction(price.slack) > slack:
            return False
        left, slack = left - Fraction(price.cost), slack - Fraction(price.slack)
    return True


def least(fits: Callable[[float], bool], start: float) -> float:
    """The least noise scale that fits, to 1e-5, looked for between the start and twice of it."""
    low, high = start * 0.999, start * 2.0
    while high - low > 1e-5 * start:
        middle = 0.5 * (low + high) if high - low > 0.2 * start else low + 0.3 * (high - low)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def mixed(scale: float) -> list[PrivacyLoss]:
    """50 Gaussian and 50 Laplace releases of about equal loss, alternating."""
    return list(islice(cycle([Gaussian(sigma=scale).loss(), Laplace(scale=scale).loss()]), 100))


def dirichlet(order: float) -> Losses:
    """10 Dirichlet releases by Algorithm 1 at an order; the scale is the noise, 1/√ε."""
    return lambda scale: [Dirichlet.algorithm1(order=order, epsilon=1 / scale**2).loss()] * 10


def small(order: float, total: float) -> float:
    """A noise scale that is too small for 10 Dirichlet releases."""
    return 0.9 * math.sqrt(20 * dirichlet(order)(1.0)[0].rdp(1) / total)


def relative(budget: Budget, losses: Losses, start: float) -> tuple[float, float]:
    """Noise of today's Rényi filter and of the Gaussian filter over that of the exact composition."""
    fixed = least(lambda scale: sum(losses(scale), PrivacyLoss.nothing()).fits(budget), start)
    delta = budget.delta or 0.0
    found = [least(lambda scale, f=f: spends(f, losses(scale)), fixed) / fixed for f in filters(budget.epsilon, delta)]  # type: ignore[misc]
    return found[0], found[1]


def filters(epsilon: float, delta: float) -> tuple[Filter, Filter]:
    """The Rényi filter at its best order and the Gaussian one."""
    return renyi_filter(epsilon, delta), filter_for(Budget(epsilon=epsilon, delta=delta))


def prices() -> None:
    """The table of noise."""
    table = Table(
        "workload", "ε", "Rényi filter", "Gaussian filter", "target", title="Noise relative to no adaptivity, δ = 1e-6"
    )
    for epsilon in (1.0, 3.0):
        budget = Budget(epsilon=epsilon, delta=DELTA)
        order = renyi_filter(epsilon, DELTA).order
        total = filter_for(budget).total
        start = Gaussian.calibrate(budget, tables=100).sigma
        workloads: list[tuple[str, Losses, float, float]] = [
            ("100 Gaussian", lambda s: [Gaussian(sigma=s).loss()] * 100, start * 0.98, 1.001),
            ("100 Laplace", lambda s: [Laplace(scale=s).loss()] * 100, start * 0.68, 1.012),
            ("50 and 50", mixed, start * 0.98, 1.008),
            ("10 Dirichlet at the Rényi filter's order", dirichlet(order), small(order, total), 1.011),
            ("10 Dirichlet at order 5", dirichlet(5.0), small(5.0, total), math.inf),
        ]
        for name, losses, guess, target in workloads:
            before, now = relative(budget, losses, guess)
            wanted = "" if math.isinf(target) else f"{target} {'met' if now <= target else 'MISSED'}"
            table.add_row(name, f"{epsilon:g}", f"{before:.4f}", f"{now:.4f}", wanted)
    Console(width=120).print(table)


def charges(count: int) -> None:
    """The processor time of charges, one after the other: pricing, and writing a file to disk."""
    table = Table("releases", "price of the first", "of the others", "charge", "target", title="Time of a charge")
    losses = {
        "Laplace": Laplace(scale=100.0).loss(),
        "Dirichlet": Dirichlet(r=1.0, alpha=5000.0).loss(),
        "Gaussian": Gaussian(sigma=100.0).loss(),
    }
    for name, loss in losses.items():
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger.open(Path(folder) / "ledger.db", budget=Budget(epsilon=1.0, delta=DELTA))
            first = seconds(lambda loss=loss, ledger=ledger: ledger.filter.price(loss), 1)  # type: ignore[misc]
            others, left = [], Fraction(ledger.filter.total)
            for _ in range(count):
                begin = time.process_time()
                price = ledger.filter.price(loss, left)
                others.append(time.process_time() - begin)
                left -= Fraction(price.cost)
            begin = time.process_time()
            for _ in range(count):
                ledger.charge(loss, dataset="d", description="", request_hash=fingerprint(name))
            each = (time.process_time() - begin) / count
        met = "met" if each < CHARGE else "MISSED"
        times = [f"{value * 1e3:.2f} ms" for value in (first, sum(others) / count, each)]
        table.add_row(f"{count} {name}", *times, f"{CHARGE * 1e3:.0f} ms {met}")
    Console(width=120).print(table)


def large(pairs: int) -> None:
    """A file of so many charges and seals: opened, and verified with its prices."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger, loss = Ledger.open(path, budget=Budget(epsilon=1.0, delta=DELTA)), Laplace(scale=40_000.0).loss()
        ledger.charge(loss, dataset="d", description="a table", request_hash=fingerprint(1)).seal(fingerprint(2))
        _, charge, seal = ledger.entries()
        last = seal
        with ledger._store.writing() as connection:
            for _ in range(pairs - 1):
                paid = Entry.after(last.number + 1, last.hash, "charge", charge.body)
                last = Entry.after(paid.number + 1, paid.hash, "seal", {**seal.body, "charge": paid.number})
                _append(connection, paid)
                _append(connection, last)
        opened = seconds(lambda: Ledger.open(path), 1)
        verified = seconds(lambda: Ledger.open(path).verify(), 1)
        last_one = Ledger.open(path)
        each = seconds(lambda: _charge(last_one, loss), 5)
        table = Table(f"{2 * pairs:,} entries", "processor time", "target", title="A large ledger")
        for what, found, target in (
            ("opened", opened, OPENED),
            ("opened, and verified with its prices", verified, math.inf),
            ("one more charge", each, CHARGE),
        ):
            wanted = "" if math.isinf(target) else f"{target * 1e3:g} ms {'met' if found < target else 'MISSED'}"
            table.add_row(what, f"{found * 1e3:.1f} ms", wanted)
    Console(width=120).print(table)


def _charge(ledger: Ledger, loss: PrivacyLoss) -> None:
    ledger.charge(loss, dataset="d", description="", request_hash=fingerprint(3))


def main(*, quick: bool = False) -> None:
    if not quick:
        prices()
    charges(20 if quick else 60)
    large(500 if quick else 50_000)


if __name__ == "__main__":
    main()
