"""Naive Bayes from a table of rows, and its predictions for further rows.

Proof: docs/proofs/sums.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .budget import Budget, Neighbours
from .counting import Progress, can_be_read_again
from .counting.plan import column_spec
from .counting.rows import encode_rows
from .counting.run import BatchEncoder
from .drawing import LedgerLike
from .errors import InvalidArgument
from .estimation import Method
from .estimation.classes import pooled_classes
from .estimation.strata import information
from .mechanisms.base import noise_scale
from .mechanisms.sums import ExtraKind, NoisySum
from .models.naive_bayes import NaiveBayesModel, Tables
from .models.release import Release
from .pipeline import fit_tables
from .planning import Calibration, MechanismName, Split
from .reweighting import Scores, reweighted, round_shares
from .sampling.entropy import Entropy, entropy_from
from .schema import Numeric, Schema, merged

LEAST_FEATURES = 4
"""With fewer there is nothing to choose between in a second look."""
FEWER_BINS = ((2.0, 4), (10.0, 6))
"""Where the average cell of a table has fewer records than this many times the noise, it gets so many bins."""
CLASS_LOSS, LEAST_FOR_CLASSES, MOST_FOR_CLASSES = 0.015, 0.02, 0.9
"""The loss of the class probabilities to aim for, and the least and the most of a second look that goes to them."""


def fit_naive_bayes(
    source: Any,
    schema: Schema,
    target: str,
    features: Sequence[str] | None = None,
    *,
    budget: Budget | None,
    mechanism: MechanismName = "auto",
    calibration: Calibration = "exact",
    estimate: Method = "posterior-mean",
    neighbours: Neighbours = "replace-one",
    split: Split | Literal["auto"] = "auto",
    reweight: bool = True,
    second_look: bool = True,
    merge_bins: bool = True,
    entropy: Entropy | int | None = None,
    rows_per_person: int | None = None,
    person: str | None = None,
    progress: Progress | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
) -> NaiveBayesModel:
    """A naive Bayes classifier from one pass over the rows: one (feature, class) table for each feature.

    The class probabilities come from the same tables, so K features cost K tables.

    Args:
        source: rows; see `simplexdp.count`.
        schema: of the features and the class.
        target: the class column, which has declared categories only.
        features: the feature columns; all others of the schema by default.
        budget: for everything together.
        mechanism: see `simplexdp.release`.
        calibration: "exact", or "algorithm1" for the paper's.
        estimate: "posterior-mean" uses all that the releases say; the others act on each table alone.
        neighbours: the relation of the guarantee.
        split: of the budget over the tables: "equal", "cells", weights, or "auto": equal for Algorithm 1, else in
            proportion to about √cells.
        reweight: spend 30 % of the budget on feature weights and class biases where public facts say that it pays: an
            estimate "posterior-mean", a public number of records that is large against the noise, and a source that can
            be read again.
        second_look: release the tables at half of their budget or less, then once more with the rest going to those
            that say most about the class, and to the classes alone where they need it; with Gaussian noise, four
            features or more and "posterior-mean".
        merge_bins: release neighbouring bins of numeric columns together where public facts say that the noise hides
            what single bins say; with "posterior-mean", a public number of records and no private quantiles. The model
            is over the declared bins all the same.
        entropy: None for the operating system's; a number makes a repeatable fit that is not private.
        rows_per_person: the guarantee is for persons with at most so many rows, named by the column `person`.
        person: the column that names the person.
        progress: called with the rows done and the rows in all.
        ledger: charged before the draw.
        dataset: the name that the ledger knows the data by.
    """
    column = schema[target]
    if column.kind != "categories" or column.has_other or column.has_missing:
        raise InvalidArgument(
            "target", "a column with declared categories and no cell for other or missing values", got=target
        )
    names = tuple(n for n in schema.names if n not in (target, person)) if features is None else tuple(features)
    if not names or target in names:
        raise InvalidArgument("features", "at least one column, the target not among them", got=names)
    randomness = entropy_from(entropy)
    exact = estimate == "posterior-mean" and calibration == "exact" and mechanism != "none"
    look_again = second_look and exact and mechanism in ("auto", "gaussian") and len(names) >= LEAST_FEATURES
    buy_rounds = reweight and exact and can_be_read_again(source)

    def extras(total: float | None) -> list[tuple[ExtraKind, float]]:
        rounds = round_shares(total, budget, len(names), column.size) if buy_rounds else []
        left = 1 - sum(share for _, share in rounds)
        # Half for the second look, and the more the more of it the classes alone need.
        alone = class_precision(total, column.size) * noise_scale(budget, 1) ** 2 if budget and total else 0.0
        share = left * (1 + min(MOST_FOR_CLASSES, alone)) / 2
        looks: list[tuple[ExtraKind, float]] = [("tables", share)] if look_again else []
        return [*looks, *rounds]

    def coarse(total: float | None) -> Schema:
        return coarse_schema(schema, names, target, budget, total) if merge_bins and exact else schema

    def shares(total: float | None) -> Split:
        if split != "auto":
            return split
        return auto_split(coarse(total), names, target) if exact else "equal"

    fit = fit_tables(
        source,
        schema,
        [(name, target) for name in names],
        budget=budget,
        mechanism=mechanism,
        calibration=calibration,
        estimate=estimate,
        neighbours=neighbours,
        split=shares,
        entropy=randomness,
        rows_per_person=rows_per_person,
        person=person,
        progress=progress,
        ledger=ledger,
        dataset=dataset,
        description=f"naive Bayes for {target}",
        extras=extras,
        second_look=lambda first, sigma: look_weights(first, sigma, target),
        coarsen=coarse,
    )
    declared = declared_schema(fit.releases, schema)
    model = NaiveBayesModel.from_releases(fit.releases, target, method=estimate, declared=declared)
    sums = [m for m in model.guarantee.mechanisms if isinstance(m, NoisySum)]
    if not sums:
        return fit.publish(model)
    tables = Tables.of(fit.releases, target, declared)
    weights, biases = reweighted(
        Scores.of(tables.strata, tables.classes, tables.total),
        float(model.weights[0]),
        lambda: (
            ([block[name] for name in names], block[target]) for block in encode_rows(source, schema, [*names, target])
        ),
        sums,
        randomness,
    )
    return fit.publish(replace(model, weights=weights, biases=biases))


def look_weights(first: Sequence[Release], sigma: float, target: str) -> dict[tuple[str, ...], float]:
    """What a second look gives to each table: √cells · (V + V̄/10)^0.7, V the information seen in the first look.

    Before that the classes alone get what they lack to `class_precision`.

    Args:
        first: the releases of the first look.
        sigma: noise of the second look if all of it went to one table.
        target: the class column.
    """
    tables = Tables.of(first, target)
    found = information(tables.strata, tables.classes)
    cells = np.array([marginal.size for marginal in tables.strata.marginals])
    weights = np.sqrt(cells) * (found + 0.1 * found.mean() + 1e-9) ** 0.7
    seen = pooled_classes([release.noisy for release in first])
    classes = tables.classes.size
    known = 1 / (seen.variance + seen.slope * tables.total / classes)
    share = min(MOST_FOR_CLASSES, (class_precision(tables.total, classes) - known) * sigma**2)
    shares: dict[tuple[str, ...], float] = {
        release.columns: float(weight) for release, weight in zip(first, weights / weights.sum(), strict=True)
    }
    if share <= LEAST_FOR_CLASSES:
        return shares
    return {name: weight * (1 - share) for name, weight in shares.items()} | {(target,): share}


def class_precision(total: float, classes: int) -> float:
    """The precision 1/v of the class counts at which the relative loss of their shares, J²v/(2N² ln J), is the aim."""
    return classes**2 / (2 * CLASS_LOSS * math.log(classes) * total**2) if classes > 1 else 0.0


def coarse_schema(
    schema: Schema, features: Sequence[str], target: str, budget: Budget | None, total: float | None
) -> Schema:
    """The schema that tables are released in, with the bins merged to the fewer the less of a cell is above the noise.

    The sum of c noisy bins has c times the variance of one; merged before the noise, they have that of one. A replaced
    record moves two cells of a table either way. Only public facts decide: the number of records, the budget, and what
    is declared.
    """
    if budget is None or not total:
        return schema
    noise = noise_scale(budget, len(features))
    fewer: list[Numeric] = []
    for column in (schema[name] for name in features):
        signal = total / (column.size * schema[target].size * noise)
        bins = next((bins for most, bins in FEWER_BINS if signal < most), None)
        if isinstance(column, Numeric) and bins is not None:
            fewer.append(merged(column, bins))
    return schema.replace(*fewer)


def declared_schema(releases: Sequence[Release], schema: Schema) -> Schema | None:
    """The declared columns of a model, if tables were released over merged bins of them."""
    released = [column for release in releases for column in release.schema or ()]
    if all(column.size == schema[column.name].size for column in released):
        return None
    return schema.select(dict.fromkeys(column.name for column in released))


def auto_split(schema: Schema, features: Sequence[str], target: str) -> list[float]:
    """√cells of each table, which minimises the summed error of all cells; the cells are rounded to powers of two.

    Few different noises compose faster.
    """
    return [2.0 ** (round(math.log2(math.prod(schema.shape((name, target))))) / 2) for name in features]


def encode_batches(
    model: NaiveBayesModel, batches: Iterable[Any], label: str = "the rows"
) -> Iterator[list[NDArray[Any]]]:
    """Cell numbers of the model's features for Arrow record batches; the schema's rules apply, errors name no value."""
    if model.schema is None:
        raise InvalidArgument("model", "one whose releases have a schema")
    specs = [column_spec(model.schema[name]) for name in model.features]
    for batch in batches:
        encoder = BatchEncoder(specs, None, max(1, batch.num_rows))
        for block in encoder.blocks(batch, label):
            yield list(block.codes)


def predict_batches(
    model: NaiveBayesModel, batches: Iterable[Any], label: str = "the rows"
) -> Iterator[NDArray[np.float64]]:
    """P(class | row) for each Arrow record batch that has rows: rows × classes, in the order of the target's cells."""
    for codes in encode_batches(model, batches, label):
        yield np.exp(model.predict_log_proba(codes))
