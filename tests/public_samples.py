"""For every public callable that takes numbers, a call that shows what becomes of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from simplexdp import (
    BalancedLaplace,
    BayesianNetwork,
    Budget,
    CountTable,
    Dirichlet,
    Gaussian,
    Laplace,
    Ledger,
    NaiveBayes,
    NoisyCounts,
    Numeric,
    Polya,
    Quantiles,
    Schema,
    Sensitivity,
    Synthesizer,
    audit,
    budget,
    count,
    estimate,
    forecast,
    planning,
    plots,
    private_score,
    quantiles,
    release,
    release_distribution,
    release_tables,
    report,
    synthetic,
    utility,
)
from simplexdp import sampling as entropy
from simplexdp.accounting import conversion, paper
from simplexdp.accounting.filters import RenyiFilter, filter_for
from simplexdp.accounting.loss import to_pld
from simplexdp.budget import Unit
from simplexdp.cores import threads_from
from simplexdp.fitting import Facts, Terms
from simplexdp.forecast import tables_recipe
from simplexdp.ledger import Amount, Registration
from simplexdp.mechanisms import NoNoise, auto, base, dirichlet, sums
from simplexdp.models import guarantee
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.noisy import NoiseLaw
from simplexdp.pipeline import fit_recipe
from simplexdp.private.counting import Deferred, Passes, identity_of, number_of_records
from simplexdp.sampling import discrete, polya
from simplexdp.schema import merged

BUDGET = Budget(epsilon=1.0, delta=1e-5)
COUNTS = [100, 60, 120, 90, 7, 50]
SEED = entropy.SeededEntropy
SCHEMA = Schema.of(a=["x", "y"], b=Numeric([0, 1, 2, 3]))
ROWS = pa.table({"a": ["x", "y", "x"] * 8, "b": [0.5, 1.5, 2.5] * 8, "who": list("abcdefgh") * 3})


@dataclass(frozen=True)
class Sample:
    """A call that shows what becomes of its numbers, and values for them in Python's own types."""

    call: Callable[..., Any]
    values: dict[str, Any]
    exact: tuple[str, ...] = ()
    """Numbers that may be no floats, not even whole ones, because floats are not exact."""
    slow: bool = False
    """Whether a few types must do."""
    unused: bool = False
    """Whether the number is there for the interface only."""


def sample(call: Callable[..., Any], **values: Any) -> Sample:
    return Sample(call, values)


def slow(call: Callable[..., Any], **values: Any) -> Sample:
    return Sample(call, values, slow=True)


OUTPUTS = {
    "audit.Event",
    "audit.Finding",
    "audit.Audit",
    "forecast.Forecast",
    "forecast.TableForecast",
    "stand_ins.StandInLoss",
    "ledger.chain.Entry",
    "ledger.chain.Entry.after",
    "ledger.ledger.Charge",
    "ledger.ledger.Verified",
    "network.SizeSummary",
    "fitting.edges.QuantilePlan",
    "ledger.requests.Asked",
    "quantiles.Resolution",
    "utility.PureDPRefutation",
}
"""What the library makes and hands out."""
ANSWERS = ("compare", "mean", "one_step", "quantile", "query", "redrawn", "regression", "sample_codes_given")
INTERNAL = {
    "accounting.paper.TheoremOneTerm",
    "accounting.paper.TheoremOneTerm.rate",
    "mechanisms.base.Mechanism.loss",
    *(
        f"models.model.{name}.{each}"
        for name in ("Model", "ModelOfReleases")
        for each in ("as_data", "describe", "picture", "plot", "sample_codes", *ANSWERS)
    ),
    "synthetic.Sampler.sample_codes",
    "models.model.Predictor.predict_some",
    "fitting.AmountLike.part",
    "sampling.discrete.exp_coins",
    "sampling.discrete.rational",
    "sampling.discrete.uniform_below",
    "mechanisms.auto.least_loss_shares",
    "mechanisms.auto.predicted_loss",
    "mechanisms.auto.sparse",
    "mechanisms.auto.zipf",
    "mechanisms.base.as_array",
    "mechanisms.base.expected_kl",
    "mechanisms.base.release_counts",
    "sampling.Entropy.words",
    "mechanisms.base.TableMechanism.release",
    "mechanisms.base.TableMechanism.loss",
    "mechanisms.base.Parametrised.loss",
    "plots.comparison",
    "schema.columns.Categories",
    "forecast.tables_recipe",
    *(f"stand_ins.{name}" for name in ("Parts.done", "Population", "Population.of", "Population.draw")),
    *(f"stand_ins.{name}" for name in ("Population.log_joint", "TableStandIn", "TableStandIn.of", "TableStandIn.loss")),
    "stand_ins.stand_in_loss",
    "models.synthesis.SynthesisModel",
    "network.NetworkRecipe",
    "pipeline.TablesRecipe",
    "pipeline.CrossTablesRecipe",
}
for _home in (
    "balanced.BalancedLaplace",
    "base.TableMechanism",
    "dirichlet.Dirichlet",
    "noise.Gaussian",
    "noise.Laplace",
    "noise.NoNoise",
    "polya.Polya",
):
    INTERNAL |= {
        f"mechanisms.{_home}.{key}" for key in ("at", "cell_loss", "check_table", "check_values", "worst_pair")
    }
INTERNAL |= {f"mechanisms.base.TableMechanism.{key}" for key in ("calibrate", "observe", "unbiased")}
for _home in ("Step", "GaussianTables", "NoisySum"):
    INTERNAL |= {f"mechanisms.sums.{_home}.{key}" for key in ("phrase", "worst_scores")}
INTERNAL |= {
    "mechanisms.noise.NoNoise.calibrate",
    "mechanisms.sums.Step.loss",
    "mechanisms.base.Limits",
    "mechanisms.base.check_sum",
    "mechanisms.dirichlet.Dirichlet.check_total",
}
"""Protocols, what only our own code calls with numbers that went through a door before, and what is shown as it is."""


@cache
def published() -> Any:
    return release(COUNTS, budget=BUDGET, entropy=1)


@cache
def table_release() -> Any:
    return release_distribution(ROWS, SCHEMA, ["a", "b"], budget=BUDGET, entropy=1)


@cache
def evidence() -> Any:
    rng = np.random.default_rng(1)
    return audit.Evidence(rng.normal(size=200) + 3, rng.normal(size=200), 0.5)


@cache
def fitted() -> Any:
    return BayesianNetwork([("a", "b")], SCHEMA, entropy=1).fit(ROWS)


@cache
def synthesized() -> Any:
    return Synthesizer(SCHEMA, epsilon=10, entropy=1).fit(pa.concat_tables([ROWS] * 100))


@cache
def fitted_bayes() -> Any:
    return NaiveBayes(schema=SCHEMA, target="a", random_state=1).fit_source(ROWS)


@cache
def naive_bayes() -> Any:
    return fit_naive_bayes(ROWS, SCHEMA, "a", ["b"], budget=BUDGET, entropy=1)


@cache
def many_tables() -> Any:
    return release_tables(ROWS, SCHEMA, [("a", "b")], budget=BUDGET, entropy=1)


@cache
def counted_numbers() -> Any:
    rows = pa.table({"n": [1.0, 2.5, 3.0, 4.5] * 25, "g": ["u", "v"] * 50})
    schema = Schema.of(n=Numeric([0, 2, 4, 6]), g=["u", "v"])
    return release_tables(rows, schema, [("n", "g")], budget=BUDGET, entropy=1)


def said(name: str, model: Callable[[], Any]) -> dict[str, Sample]:
    """What every model can be asked."""
    return {
        f"{name}.as_data": sample(lambda level: json.dumps(model().as_data(level=level)), level=0.5),
        f"{name}.describe": sample(
            lambda **v: [(part.heading, part.table, part.items) for part in model().describe(**v)], level=0.5, most=2
        ),
        f"{name}.picture": sample(lambda level: model().picture(level=level).title, level=0.5),
        f"{name}.plot": sample(lambda level: len(plots.save(model().plot(level=level), "svg")), level=0.5),
        f"{name}.redrawn": sample(
            lambda number: [str(tables) for _, _, tables in model().redrawn(number, np.random.default_rng(1))], number=2
        ),
        f"{name}.sample_codes_given": sample(
            lambda size, given: {
                k: c.tolist()
                for k, c in model().sample_codes_given(size, np.random.default_rng(1), {"a": given}).items()
            },
            size=100,
            given=[0, 1],
        ),
        f"{name}.query": sample(lambda level: str(model().query(["a", "b"], level=level)), level=0.5),
        f"{name}.quantile": sample(lambda **v: str(model().quantile("b", **v)), q=0.25, level=0.5),
        f"{name}.compare": sample(
            lambda level: str(model().compare(["a"], {"b": "[0, 1)"}, {"b": "[1, 2)"}, level=level)), level=0.5
        ),
        f"{name}.mean": sample(
            lambda level, values: str(
                model().mean("a", level=level, values=dict(zip(("x", "y"), values, strict=False)))
            ),
            level=0.5,
            values=[1, 2],
        ),
        f"{name}.regression": sample(
            lambda level, values: str(
                model().regression(
                    "a", ["b"], family="linear", level=level, values={"a": dict(zip(("x", "y"), values, strict=False))}
                )
            ),
            level=0.5,
            values=[1, 2],
        ),
        f"{name}.one_step": sample(
            lambda level: str(model().one_step(lambda p: p[0], lambda p: np.eye(p.size)[0], ["a"], level=level)),
            level=0.5,
        ),
        f"{name}.sample_codes": sample(
            lambda size: {k: c.tolist() for k, c in model().sample_codes(size, np.random.default_rng(1)).items()},
            size=100,
        ),
    }


def event() -> Any:
    return audit.Event(threshold=1.0, upper=True)


def guaranteed(**given: Any) -> Any:
    settings = {"mechanisms": (Laplace(scale=4.0),), "neighbours": "add-remove", "unit": "person"} | given
    made = guarantee.Guarantee(**settings)
    json.dumps(made.to_body())
    return made, made.loss.rdp(5)


def persons(**given: Any) -> Any:
    return {"person": "who", "entropy": SEED(1)} | given


def opened(**given: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return Ledger.open(Path(folder) / "l.db", budget=BUDGET, **given).terms


def registered(records: Any) -> Registration:
    return Registration.of(identity_of(ROWS), PLAIN, records, None)


def written(**given: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.csv"
        synthetic.write_synthetic_records(table_release(), path=path, **given)
        return path.read_bytes()


def planned(**given: Any) -> Any:
    settings: dict[str, Any] = {"shapes": [(3,)], "mechanism": "gaussian"} | given
    made = planning.plan_tables(**{"columns": [("a",)], "budget": BUDGET} | settings)
    return made, made.guarantee.loss.rdp(5)


def made(mechanism: Any) -> Any:
    loss = mechanism.loss()
    return mechanism, str(mechanism), json.dumps(mechanism.parameters), loss.rdp(2)


def table(**given: Any) -> Any:
    settings = {"unit": "person", "rows_per_person": 3} | given
    counted = CountTable(columns=("a", "b"), **settings)
    return [int(counted.private_counts().sum()), counted.rows_per_person, int(counted.margin(["a"]).size)]


def document(found: Any) -> Any:
    return len(found.to_json()), found.guarantee, found.values


def bars(figure: Any) -> Any:
    return [patch.get_width() for patch in figure.axes[0].patches], figure.axes[0].get_xlabel()


def lines(figure: Any) -> Any:
    return [line.get_xydata() for line in figure.axes[0].lines]


def bayes(**given: Any) -> Any:
    return NaiveBayes(schema=SCHEMA, target="a", random_state=1, **given).fit_source(ROWS).model_.class_probabilities


def from_data(**given: Any) -> Any:
    X, y = np.arange(40.0).reshape(20, 2), np.array(["u", "v"] * 10)
    return NaiveBayes(domain="from-data", random_state=1, mechanism="none", **given).fit(X, y).model_.schema


PLAIN = Schema.of(a=["x", "y"])
FACTS = {"budget": BUDGET, "entropy": 1}
LOSS = Laplace(scale=4.0).loss()
AMOUNT = Amount(
    filter=RenyiFilter(order=5.0, total=1.0),
    exact=Fraction(1, 2),
    slack=Fraction(0),
    whole=Budget(epsilon=20.0, delta=1e-5),
    neighbours="replace-one",
)
NOISE: list[Any] = [Gaussian(sigma=4.0), Laplace(scale=4.0), BalancedLaplace(scale=4.0, cells=6)]
QUARTERS = Schema.of(b=Quantiles(4, lower=0, upper=4))


def noise_samples() -> Iterator[tuple[str, Sample | list[Sample]]]:
    """What the three kinds of integer noise share."""
    for mechanism in NOISE:
        one = type(mechanism)
        home = f"mechanisms.{'balanced' if one is BalancedLaplace else 'noise'}.{one.__name__}"
        rows = 1 if one is BalancedLaplace else 16
        fixed = {"cells": 6} if one is BalancedLaplace else {}
        yield f"{home}.loss", sample(lambda m=mechanism, **v: m.loss(**v).rdp(5), rows=rows)
        yield f"{home}.release", sample(lambda m=mechanism, **v: m.release(entropy=1, **v).values, counts=COUNTS)
        yield (
            f"{home}.unbiased",
            Sample(lambda m=mechanism, **v: m.unbiased(np.ones(6), **v), {"total": 100}, unused=True),
        )
        calibrate = sample(lambda m=one, **v: m.calibrate(BUDGET, **v), tables=17, rows=min(rows, 3), **fixed)
        more = {"total": 100} if fixed else {"total": 100, "cells": 6}
        unused = Sample(lambda m=one, f=fixed, **v: m.calibrate(BUDGET, **f | v), more, unused=True)
        yield f"{home}.calibrate", [calibrate, unused]
        yield f"{home}.observe", sample(lambda m=mechanism, **v: vars(m.observe(np.ones(6), **v)), total=100)
        if one is not BalancedLaplace:
            yield f"{home}.expected_kl", sample(mechanism.expected_kl, counts=COUNTS, constant=0.5)


def scored(clip: float) -> Any:
    found = private_score(naive_bayes(), ROWS, budget=BUDGET, clip=clip, entropy=1)
    return found.log_loss, found.clip


SAMPLES: dict[str, Sample | list[Sample]] = {
    "accounting.conversion.best_order": sample(
        lambda upper: conversion.best_order(lambda x: x + 1 / (x - 1), upper), upper=50
    ),
    "accounting.conversion.conversion_floor": sample(conversion.conversion_floor, order=5, delta=0.25),
    "accounting.conversion.largest_power": sample(
        lambda rate: conversion.largest_power(rate, LOSS.delta, LOSS.delta), rate=0.25
    ),
    "accounting.conversion.rdp_for_epsilon": sample(conversion.rdp_for_epsilon, order=16, epsilon=4, delta=0.25),
    "accounting.conversion.rdp_to_epsilon": sample(conversion.rdp_to_epsilon, order=16, rdp=4, delta=0.25),
    "accounting.conversion.rdp_to_log_delta": sample(conversion.rdp_to_log_delta, order=16, rdp=1, epsilon=4),
    "accounting.paper.gohari_delta": sample(paper.gohari_delta, gamma=0.25, concentration=100, alpha=4, cells=6),
    "accounting.paper.gohari_epsilon": sample(paper.gohari_epsilon, gamma=0.25, r=0.5, alpha=16, total=100),
    "accounting.paper.gohari_guarantee": sample(
        paper.gohari_guarantee, r=0.5, alpha=16, total=100, cells=6, delta=0.25
    ),
    "accounting.loss.PrivacyLoss.__mul__": sample(
        lambda times: (LOSS * times).rdp(5) + (times * LOSS).rdp(3), times=17
    ),
    "accounting.loss.PrivacyLoss.delta": sample(LOSS.delta, epsilon=0.25),
    "accounting.loss.PrivacyLoss.epsilon": sample(LOSS.epsilon, delta=0.25),
    "accounting.loss.PrivacyLoss.log_mgf": sample(LOSS.log_mgf, w=16),
    "accounting.loss.PrivacyLoss.posterior": sample(LOSS.posterior, prior=0.25),
    "accounting.loss.PrivacyLoss.power": sample(LOSS.power, false_positive_rate=0.25),
    "accounting.loss.PrivacyLoss.rdp": sample(LOSS.rdp, order=17),
    "accounting.paper.Sensitivity": sample(Sensitivity, l2_squared=100, linf=5, lower=16),
    "accounting.paper.algorithm1": sample(paper.algorithm1, order=17, epsilon=0.5),
    "accounting.paper.trigamma": sample(paper.trigamma, x=16),
    "accounting.loss.to_pld": sample(lambda interval: to_pld(LOSS, interval).get_epsilon_for_delta(0.01), interval=0.5),
    "audit.Evidence": sample(
        lambda confidence: audit.Evidence(np.arange(20.0), np.arange(20.0), confidence).confidence, confidence=0.5
    ),
    "audit.Evidence.best": sample(lambda deltas: evidence().best(deltas, lambda _, bound: bound), deltas=[0.125, 0.25]),
    "audit.Evidence.delta_at": sample(lambda epsilon: evidence().delta_at(epsilon), epsilon=1),
    "audit.Evidence.prove": sample(lambda delta: evidence().prove(event(), delta), delta=0.25),
    "audit.audit_fit": sample(
        lambda **v: audit.audit_fit(guarantee.Guarantee(mechanisms=(Laplace(scale=4.0),)), entropy=1, **v),
        draws=100,
        delta=0.25,
        confidence=0.5,
    ),
    "audit.audit": slow(
        lambda **v: audit.audit(
            lambda counts, source: float(Laplace(scale=4.0).draw(counts, source)[0]),
            tables=([1, 0], [0, 1]),
            claimed=Budget(epsilon=1, delta=0.25),
            score=float,
            entropy=1,
            **v,
        ),
        draws=100,
        delta=0.25,
        confidence=0.5,
    ),
    "audit.audit_mechanism": sample(
        lambda **v: audit.audit_mechanism(Laplace(scale=4.0), entropy=1, **v), draws=100, delta=0.25, confidence=0.5
    ),
    "audit.WorstCase": sample(
        lambda rows: audit.WorstCase(claimed=Laplace(scale=4.0), neighbours="replace-one", rows=rows), rows=16
    ),
    "audit.WorstCase.scores": sample(
        lambda **v: audit.WorstCase(claimed=Laplace(scale=4.0), neighbours="add-remove").scores(
            Laplace(scale=4.0), entropy=SEED(1), **v
        ),
        table=1,
        draws=16,
    ),
    "budget.Budget": [
        sample(lambda **v: (Budget(**v), str(Budget(**v))), epsilon=2, delta=0.25),
        sample(lambda **v: Budget(epsilon=1, **v), order=17),
    ],
    "budget.check_whole": sample(lambda **v: budget.check_whole("x", **v), value=100),
    "accounting.loss.PrivacyLoss.bounds": [
        sample(LOSS.bounds, epsilon=0.25),
        sample(LOSS.bounds, delta=0.25),
        sample(LOSS.bounds, order=17),
    ],
    "budget.Unit": sample(lambda rows_per_person: Unit(rows_per_person=rows_per_person).rows, rows_per_person=2),
    "budget.Budget.rdp": sample(lambda **v: (Budget.rdp(**v), str(Budget.rdp(**v))), order=17, epsilon=0.5),
    "budget.Budget.pure": sample(lambda **v: (Budget.pure(**v), str(Budget.pure(**v))), epsilon=0.5),
    "budget.Budget.zcdp": sample(lambda **v: (Budget.zcdp(**v), str(Budget.zcdp(**v))), rho=0.5),
    "budget.check_delta": sample(lambda value: budget.check_delta("x", value), value=0.25),
    "budget.check_fraction": sample(lambda value: budget.check_fraction("x", value), value=0.25),
    "budget.check_not_negative": sample(lambda value: budget.check_not_negative("x", value), value=16),
    "budget.check_number": sample(lambda value: budget.check_number("x", value), value=-16.5),
    "budget.check_order": sample(budget.check_order, order=17),
    "budget.check_positive": sample(lambda value: budget.check_positive("x", value), value=16),
    "private.counting.passes.count": sample(
        lambda **v: json.dumps(count(ROWS, PLAIN, [("a",)], **persons(**v))[0].rows_per_person),
        rows_per_person=2,
        memory_limit=100,
        threads=2,
    ),
    "private.counting.passes.Passes": sample(
        lambda threads: json.dumps(Passes(ROWS, Facts(records=24, is_public=True), threads=threads)._threads), threads=2
    ),
    "private.counting.plan.number_of_records": sample(
        lambda threads: number_of_records(ROWS, threads_from(threads)), threads=2
    ),
    "private.counting.plan.Deferred": sample(
        lambda records: json.dumps(Deferred(records=records, make=list).records), records=24
    ),
    "fitting.Facts": sample(
        lambda records: (made := Facts(records=records, is_public=True, again=True), made.total, made.records)[1:],
        records=24,
    ),
    "estimation.values.Estimate.intervals": sample(
        lambda level: estimate(NoisyCounts(values=np.array([1.0, 5.0]), variance=4.0)).intervals(level), level=0.5
    ),
    "noisy.NoisyCounts": sample(
        lambda **v: NoisyCounts(values=np.array([9.0, 50.0]), **v), variance=4, slope=0.5, total=60
    ),
    "noisy.NoiseLaw": sample(lambda **v: vars(NoiseLaw(**v)), variance=4, slope=0.5),
    "noisy.NoiseLaw.independent": sample(
        lambda cells: NoiseLaw(noise="laplace", variance=8.0, balanced=True).independent(cells).variance, cells=16
    ),
    "noisy.NoisyCounts.of": sample(
        lambda total: NoisyCounts.of(np.array([9.0, 50.0]), Gaussian(sigma=2.0).law, total).total, total=60
    ),
    "forecast.plan": slow(
        lambda **v: forecast.plan([3], budget=BUDGET, mechanism="laplace", **v),
        total=100,
        like=[50, 30, 20],
        repeats=2,
        rows_per_person=16,
    ),
    "forecast.smallest_epsilon": slow(
        lambda target_kl: forecast.smallest_epsilon(
            target_kl, [3], budget=Budget(epsilon=1, delta=0), total=100, mechanism="laplace", repeats=1
        ),
        target_kl=0.25,
    ),
    "forecast.smallest_epsilon_for_cell": slow(
        lambda error: forecast.smallest_epsilon_for_cell(
            error, [3], budget=Budget(epsilon=1, delta=0), total=100, mechanism="laplace"
        ),
        error=16,
    ),
    "forecast.smallest_total": slow(
        lambda target_kl: forecast.smallest_total(
            target_kl, [3], budget=Budget(epsilon=1, delta=0), mechanism="laplace", repeats=1
        ),
        target_kl=0.25,
    ),
    "learn.NaiveBayes": slow(
        lambda epsilon, delta, bins: (bayes(epsilon=epsilon, delta=delta), from_data(bins=bins)),
        epsilon=2,
        delta=0.015625,
        bins=4,
    ),
    "learn.NaiveBayes.fit_source": slow(
        lambda **v: (
            NaiveBayes(schema=SCHEMA, target="a", random_state=1).fit_source(ROWS, person="who", **v).model_.guarantee
        ),
        rows_per_person=2,
        records=24,
    ),
    "learn.NaiveBayes.sample": sample(lambda **v: fitted_bayes().sample(**v), size=100, seed=16),
    "accounting.filters.filter_for": sample(lambda **v: filter_for(BUDGET, **v), order=17, share=0.25),
    "ledger.amount.Amount": sample(
        lambda **v: (made := replace(AMOUNT, **v), made.budget, made.times(LOSS)), exact=16, slack=0.25
    ),
    "ledger.amount.Amount.epsilon": sample(AMOUNT.epsilon, delta=0.25),
    "ledger.amount.Amount.part": sample(AMOUNT.part, share=0.25),
    "ledger.ledger.Ledger.open": sample(opened, order=17, timeout=16),
    "ledger.registry.Registration": sample(
        lambda records: json.dumps(replace(registered(24), records=records).to_body()), records=24
    ),
    "ledger.registry.Registration.of": sample(lambda records: json.dumps(registered(records).to_body()), records=24),
    "mechanisms.auto.choose": slow(
        lambda **v: auto.choose(BUDGET, neighbours="add-remove", **v), tables=17, total=100, cells=100, rows=2
    ),
    "mechanisms.balanced.BalancedLaplace": sample(lambda **v: made(BalancedLaplace(**v)), scale=16, cells=17),
    "mechanisms.balanced.BalancedLaplace.draws": sample(
        lambda times: NOISE[2].draws(np.array(COUNTS), times, SEED(1)), times=16
    ),
    "mechanisms.base.calibrate_upwards": sample(
        lambda **v: base.calibrate_upwards(lambda x: Laplace(scale=x).loss(), BUDGET, **v), start=16, rtol=0.5
    ),
    "mechanisms.base.checked_counts": sample(lambda counts: base.checked_counts(counts).sum(), counts=COUNTS),
    "mechanisms.base.noise_scale": sample(lambda tables: base.noise_scale(BUDGET, tables), tables=17),
    "mechanisms.base.pure_scale": sample(lambda shifts: base.pure_scale(Budget(epsilon=1, delta=0), shifts), shifts=17),
    "mechanisms.dirichlet.Dirichlet": sample(lambda **v: made(Dirichlet(**v)), r=0.5, alpha=16),
    "mechanisms.dirichlet.Dirichlet.algorithm1": sample(
        Dirichlet.algorithm1, order=17, epsilon=0.5, l2_squared=100, linf=5, lower=16
    ),
    "mechanisms.dirichlet.Dirichlet.calibrate": sample(
        lambda **v: Dirichlet.calibrate(Budget.rdp(order=2, epsilon=1), **v),
        tables=17,
        r=0.5,
        total=100,
        cells=6,
        rows=3,
    ),
    "mechanisms.dirichlet.Dirichlet.concentrated": sample(
        lambda **v: Dirichlet.concentrated(Budget.rdp(order=2, epsilon=1), **v), alpha=4, tables=17
    ),
    "mechanisms.dirichlet.Dirichlet.diffused": sample(
        lambda **v: Dirichlet.diffused(Budget.rdp(order=2, epsilon=1), **v), alpha=4, tables=17
    ),
    "mechanisms.dirichlet.Dirichlet.expected_kl": sample(Dirichlet(r=1, alpha=4).expected_kl, counts=COUNTS),
    "mechanisms.dirichlet.Dirichlet.gohari": sample(
        lambda **v: Dirichlet.gohari(alpha=16, **v), epsilon=4, delta=0.25, total=100, cells=6
    ),
    "mechanisms.dirichlet.Dirichlet.loss": sample(
        lambda **v: Dirichlet(r=0.5, alpha=100).loss(**v).rdp(2), rows=16, lower=2.5
    ),
    "mechanisms.dirichlet.Dirichlet.release": sample(
        lambda counts: Dirichlet(r=1, alpha=4).release(counts, entropy=1).values, counts=COUNTS
    ),
    "mechanisms.dirichlet.Dirichlet.shapes": sample(
        lambda most: Dirichlet(r=1, alpha=4).shapes(np.array(COUNTS), most), most=16
    ),
    "mechanisms.dirichlet.Dirichlet.unbiased": sample(
        lambda total: Dirichlet(r=1, alpha=4).unbiased(np.full(4, 0.25), total), total=100
    ),
    "mechanisms.dirichlet.Dirichlet.observe": sample(
        lambda total: vars(Dirichlet(r=1, alpha=4).observe(np.full(4, 0.25), total)), total=100
    ),
    "mechanisms.dirichlet.zipf_profile": sample(dirichlet.zipf_profile, total=100, cells=17),
    "mechanisms.noise.Gaussian": sample(lambda **v: made(Gaussian(**v)), sigma=17),
    "mechanisms.noise.Gaussian.continuous_loss": sample(lambda l2: NOISE[0].continuous_loss(l2).rdp(5), l2=17),
    "mechanisms.noise.Laplace": sample(lambda **v: made(Laplace(**v)), scale=17),
    "mechanisms.noise.NoNoise.loss": Sample(lambda rows: NoNoise().loss(rows=rows), {"rows": 16}, unused=True),
    "mechanisms.noise.NoNoise.release": sample(lambda counts: NoNoise().release(counts).values, counts=COUNTS),
    "mechanisms.noise.NoNoise.unbiased": Sample(
        lambda total: NoNoise().unbiased(np.ones(2), total), {"total": 16}, unused=True
    ),
    "mechanisms.noise.NoNoise.observe": sample(lambda total: vars(NoNoise().observe(np.ones(2), total)), total=16),
    "mechanisms.polya.Polya.observe": sample(
        lambda total: vars(Polya(r=3, alpha=100).observe(np.ones(2), total)), total=16
    ),
    "mechanisms.polya.Polya": sample(lambda **v: made(Polya(**v)), r=17, alpha=100, flips=2),
    "mechanisms.polya.Polya.calibrate": sample(
        lambda **v: Polya.calibrate(Budget.rdp(order=2, epsilon=1), **v),
        tables=5,
        r=3,
        flips=2,
        total=100,
        cells=6,
        rows=3,
    ),
    "mechanisms.polya.Polya.draw": sample(
        lambda most: Polya(r=3, alpha=100).draw(np.array(COUNTS), SEED(1), most=most), most=127
    ),
    "mechanisms.polya.Polya.expected_kl": sample(Polya(r=3, alpha=100).expected_kl, counts=[1, 5, 9], constant=0.5),
    "mechanisms.polya.Polya.loss": sample(lambda rows: Polya(r=3, alpha=100).loss(rows=rows).rdp(2), rows=16),
    "mechanisms.polya.Polya.release": sample(
        lambda **v: Polya(r=3, alpha=100).release(entropy=1, **v).values, counts=COUNTS, most=127
    ),
    "mechanisms.polya.Polya.unbiased": Sample(
        lambda total: Polya(r=3, alpha=100).unbiased(np.ones(2), total), {"total": 16}, unused=True
    ),
    "mechanisms.sums.GaussianTables": sample(lambda **v: made(sums.GaussianTables(**v)), sigma=17),
    "mechanisms.sums.GaussianTables.loss": sample(
        lambda rows: sums.GaussianTables(sigma=4).loss(rows=rows).rdp(2), rows=16
    ),
    "mechanisms.sums.GaussianTables.spread": sample(sums.GaussianTables(sigma=4).spread, weights=[100, 120, 100]),
    "mechanisms.sums.NoisySum": sample(lambda **v: made(sums.NoisySum(kind="vector", **v)), sigma=17, bound=16),
    "mechanisms.sums.NoisySum.loss": sample(
        lambda rows: sums.NoisySum(sigma=4, bound=16, kind="matrix").loss(rows=rows).rdp(2), rows=16
    ),
    "mechanisms.sums.NoisySum.of": sample(lambda sigma: sums.NoisySum.of("vector", sigma), sigma=17),
    "mechanisms.sums.extra": sample(lambda sigma: sums.extra("tables", sigma), sigma=17),
    "models.bayesian_network.BayesianNetworkModel.marginal": sample(
        lambda evidence: fitted().model.marginal(["b"], {"a": evidence}), evidence=1
    ),
    "models.bayesian_network.BayesianNetworkModel.predict_some": sample(
        lambda rows: fitted().model.predict_some("b", {}, rows).tolist(), rows=3
    ),
    "models.naive_bayes.NaiveBayesModel.predict_some": sample(
        lambda rows: naive_bayes().predict_some(naive_bayes().target, {}, rows).tolist(), rows=3
    ),
    **said("models.bayesian_network.BayesianNetworkModel", lambda: fitted().model),
    **said("models.naive_bayes.NaiveBayesModel", lambda: naive_bayes()),
    **said("models.synthesis.SynthesisModel", lambda: synthesized().model),
    "models.synthesis.SynthesisModel.agreement": sample(
        lambda records: synthesized().model.agreement(records), records=100
    ),
    "models.synthesis.SynthesisModel.predict_some": sample(
        lambda rows: synthesized().model.predict_some("b", {}, rows).tolist(), rows=3
    ),
    "synthesizer.Synthesizer": sample(
        lambda **v: str(Synthesizer(SCHEMA, entropy=1, **v).budget), epsilon=2, delta=0.25
    ),
    "synthesizer.Synthesizer.fit": slow(
        lambda **v: Synthesizer(SCHEMA, entropy=1).fit(ROWS, person="who", **v).model.guarantee,
        rows_per_person=2,
        records=24,
        threads=2,
    ),
    "synthesizer.Synthesizer.sample": sample(
        lambda **v: str(synthesized().sample(**{"seed": 1} | v)), size=100, seed=16
    ),
    **said("models.release.Release", lambda: table_release()),
    "models.guarantee.Guarantee": sample(guaranteed, rows=16, pure=[0.5, 1]),
    "models.guarantee.Guarantee.epsilon": sample(lambda delta: published().guarantee.epsilon(delta), delta=0.25),
    "models.guarantee.Guarantee.views": sample(
        lambda **v: json.dumps(published().guarantee.views(**v)), deltas=[0.125, 0.25], orders=[17, 2.5]
    ),
    "models.guarantee.pure_loss": sample(
        lambda epsilon: guarantee.pure_loss(epsilon, "replace-one").rdp(5), epsilon=0.5
    ),
    "models.release.Release": sample(
        lambda total: json.dumps(
            type(published())(
                values=np.array([1, 2]),
                mechanism=Gaussian(sigma=4.0),
                guarantee=guarantee.Guarantee(mechanisms=(Gaussian(sigma=4.0),)),
                total=total,
                created="2026-01-31T12:00:00+00:00",
            ).to_body()
        ),
        total=100,
    ),
    "models.release.Release.intervals": sample(lambda level: published().intervals(level), level=0.5),
    "network.BayesianNetwork": sample(
        lambda **v: BayesianNetwork([("a", "b")], SCHEMA, **v).budget, epsilon=2, delta=0.25
    ),
    "network.BayesianNetwork.fit": slow(
        lambda **v: BayesianNetwork([("a", "b")], SCHEMA, entropy=1).fit(ROWS, person="who", **v).model.guarantee,
        rows_per_person=2,
        records=24,
        threads=2,
    ),
    "network.BayesianNetwork.sample": sample(
        lambda **v: str(fitted().sample(**{"seed": 1} | v)), size=100, seed=16, replicates=2
    ),
    "network.BayesianNetwork.shares": sample(lambda total: fitted().shares(total), total=100),
    "network.NetworkRecipe.shares": sample(lambda total: fitted().recipe.shares(total, BUDGET), total=100),
    "naive_bayes.fit_naive_bayes": sample(
        lambda **v: fit_naive_bayes(ROWS, SCHEMA, "a", ["b"], person="who", **v, **FACTS).guarantee,
        rows_per_person=2,
        records=24,
        threads=2,
    ),
    "fitting.Terms.of": sample(
        lambda rows_per_person: str(Terms.of(BUDGET, rows_per_person=rows_per_person, entropy=1).unit),
        rows_per_person=2,
    ),
    "pipeline.fit_recipe": sample(
        lambda **v: (
            fit_recipe(tables_recipe([("a",)], PLAIN), ROWS, person="who", rows_per_person=2, **v, **FACTS)
            .releases[0]
            .values
        ),
        records=24,
        threads=2,
    ),
    **said("models.tables.TablesModel", lambda: many_tables()),
    "models.tables.TablesModel.count": sample(lambda level: str(many_tables().count("a", level=level)), level=0.5),
    "models.tables.TablesModel.share": sample(lambda level: str(many_tables().share("a", level=level)), level=0.5),
    "models.tables.TablesModel.mean": sample(
        lambda level: str(counted_numbers().mean("n", "g", level=level)), level=0.5
    ),
    "models.tables.TablesModel.quantile": sample(
        lambda **v: str(counted_numbers().quantile("n", by="g", **v)), level=0.5, q=0.25
    ),
    "models.tables.TablesModel.intervals": sample(
        lambda level: many_tables().intervals(["a"], level=level)[0].tolist(), level=0.5
    ),
    "pipeline.release_tables": sample(
        lambda weights, **v: (
            release_tables(ROWS, PLAIN, [("a",)], weights=[weights], person="who", **v, **FACTS).releases[0].values
        ),
        weights=2,
        rows_per_person=2,
        records=24,
        threads=2,
    ),
    "pipeline.fit_tables": [],
    "pipeline.release": sample(lambda counts: release(counts, **FACTS).values, counts=COUNTS),
    "pipeline.release_distribution": sample(
        lambda **v: document(release_distribution(ROWS, PLAIN, ["a"], person="who", **v, **FACTS)),
        rows_per_person=2,
        records=24,
        threads=2,
    ),
    "planning.Asked": sample(planned, shapes=[[17]], total=100, rows=1, pure=[0.5]),
    "planning.plan_tables": sample(planned, shapes=[[17]]),
    "planning.shares": sample(lambda sizes: planning.shares("cells", sizes, [("a",), ("b",)]), sizes=[17, 100]),
    "planning.split_by_loss": sample(
        lambda **v: planning.split_by_loss(Budget(epsilon=1, delta=0), neighbours="replace-one", **v),
        sizes=[17, 100],
        total=100,
        rows=2,
    ),
    "planning.warn_of_weak_budget": sample(lambda total: planning.warn_of_weak_budget(BUDGET, total), total=100),
    "plots.bars": sample(
        lambda **v: bars(plots.bars([str(i) for i in range(6)], **v)),
        values=COUNTS,
        lower=[0] * 6,
        upper=[127] * 6,
        cells=3,
    ),
    "plots.chart": sample(lambda level: plots.chart(published(), level=level).to_dict(), level=0.5),
    "plots.curves": sample(
        lambda **v: lines(plots.curves(**{"series": {"a": [1, 2]}, "x_label": "", "y_label": ""} | v)), x=[16, 100]
    ),
    "plots.distribution": sample(lambda **v: bars(plots.distribution(published(), **v)), level=0.5, cells=3),
    "plots.image_rows": sample(
        lambda top: plots.image_rows({"a": [np.ones((2, 2))]}, top=top).axes[0].images[0].get_clim(), top=2
    ),
    "plots.privacy_profile": sample(lambda points: lines(plots.privacy_profile({"a": LOSS}, points=points)), points=4),
    "private.session.choose_points": sample(
        lambda bins: quantiles.choose_points(np.ones(20, dtype=np.int64), bins, lambda s, _: int(s.argmin())), bins=4
    ),
    "fitting.edges.plan_quantiles": sample(
        lambda **v: quantiles.plan_quantiles(QUARTERS, neighbours="replace-one", **v).epsilon_spent,
        epsilon=2,
        candidates=100,
        rows_per_person=16,
    ),
    "quantiles.resolve_quantiles": sample(
        lambda **v: quantiles.resolve_quantiles(QUARTERS, ROWS, neighbours="replace-one", **v).epsilon_spent,
        epsilon=2,
        candidates=100,
        rows_per_person=16,
    ),
    "report.model_report": slow(lambda level: report.model_report(published(), level=level)[:4000], level=0.5),
    "score.private_score": slow(scored, clip=4),
    "sampling.discrete.balanced_laplace": Sample(
        lambda **v: discrete.balanced_laplace(entropy=SEED(1), **v),
        {"size": 16, "cells": 3, "scale": 4},
        exact=("scale",),
    ),
    "sampling.discrete.discrete_gaussian": Sample(
        lambda **v: discrete.discrete_gaussian(entropy=SEED(1), **v), {"size": 16, "variance": 4}, exact=("variance",)
    ),
    "sampling.discrete.discrete_laplace": Sample(
        lambda **v: discrete.discrete_laplace(entropy=SEED(1), **v), {"size": 16, "scale": 4}, exact=("scale",)
    ),
    "sampling.SecureEntropy.words": sample(lambda size: len(entropy.SecureEntropy().words(size)), size=16),
    "sampling.SeededEntropy": sample(lambda seed: SEED(seed).words(2), seed=16),
    "sampling.SeededEntropy.words": sample(lambda size: SEED(1).words(size), size=16),
    "sampling.polya.negative_binomial": sample(
        lambda **v: polya.negative_binomial(np.array([3, 20]), entropy=SEED(1), **v), flips=2, upper=100
    ),
    "schema.columns.Numeric": sample(lambda **v: Numeric(**v).labels, edges=[0, 16, 100], own=[17, 2.5]),
    "schema.columns.Quantiles": Sample(
        Quantiles, {"lower": 0, "upper": 100, "share": 0.5, "bins": 16}, exact=("bins",)
    ),
    "schema.columns.merged": sample(lambda bins: merged(Numeric(range(20)), bins), bins=4),
    "schema.model.Schema.from_public": sample(lambda **v: Schema.from_public(ROWS, **v), bins=4, max_distinct=2),
    "schema.model.Schema.from_data": sample(
        lambda **v: Schema.from_data(ROWS, i_accept_that_the_result_is_not_private=True, **v), bins=4, max_distinct=2
    ),
    "schema.model.Schema.paper_discretisation": sample(
        lambda **v: Schema.paper_discretisation(ROWS, **v), bins=4, max_distinct=2, frequent=0.25
    ),
    "synthetic.record_batches": sample(
        lambda **v: list(synthetic.record_batches(table_release(), generator=np.random.default_rng(1), **v)),
        size=100,
        block=60,
    ),
    "synthetic.replicated_records": sample(
        lambda **v: str(synthetic.replicated_records(table_release(), **{"seed": 1} | v)),
        size=50,
        replicates=2,
        seed=16,
    ),
    "synthetic.synthetic_records": sample(
        lambda **v: synthetic.synthetic_records(table_release(), **{"seed": 1} | v).read_all(), size=100, seed=16
    ),
    "synthetic.write_synthetic_records": sample(lambda **v: written(**{"seed": 1} | v), size=100, seed=16, threads=2),
    "private.tables.CountTable": Sample(
        lambda **v: json.dumps(table(**v)),
        {"counts": [[100, 127], [120, 90]], "rows_per_person": 16},
        exact=("counts",),
    ),
    "private.tables.CountTable.from_array": Sample(
        lambda counts: CountTable.from_array(counts, columns=("a",)).private_counts().sum(),
        {"counts": COUNTS},
        exact=("counts",),
    ),
    "private.tables.CountTable.merged": sample(
        lambda places: CountTable(COUNTS, ("a",)).merged("a", places).private_counts(), places=[0, 0, 1, 1, 2, 2]
    ),
    "utility.bias": sample(lambda counts: utility.bias(Dirichlet(r=1, alpha=4), counts), counts=COUNTS),
    "utility.variance": sample(lambda counts: utility.variance(Dirichlet(r=1, alpha=4), counts), counts=COUNTS),
    "utility.exponential_mechanism_log_density": sample(
        lambda **v: utility.exponential_mechanism_log_density(Dirichlet(r=1, alpha=4), **v),
        counts=COUNTS,
        y=[0.25, 0.25, 0.125, 0.125, 0.125, 0.125],
    ),
    "utility.refute_pure_dp": sample(
        lambda epsilon: utility.refute_pure_dp(Dirichlet(r=1, alpha=4), epsilon), epsilon=2
    ),
    "utility.smallest_total": sample(
        lambda **v: utility.smallest_total(Dirichlet(r=1, alpha=4), **v), cells=6, eta=0.5, probability=0.25
    ),
    "utility.tail_bound": sample(
        lambda **v: utility.tail_bound(Dirichlet(r=1, alpha=4), **v), total=100, cells=6, eta=0.5
    ),
    **dict(noise_samples()),
}
