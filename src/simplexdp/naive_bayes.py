"""Naive Bayes from a table of rows, and its predictions for further rows.

The model is p_j ∝ π_j e^{b_j} ∏_k (θ_kj/m_k)^{w_k}: weights w and class biases b take back what features repeat.
They come from private Newton rounds, each of which publishes the noisy sums of the records' gradients and Hessians of
the log-loss, which the kernel "newton" makes.

Proof: docs/proofs/sums.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .budget import Budget, BudgetWord, Neighbours
from .errors import InvalidArgument, UtilityWarning, discreet, warn
from .estimation import Method
from .estimation.reweight import Expansion, Scores, newton_step
from .estimation.strata import information, pooled_classes
from .fitting import Facts, LedgerLike, Terms
from .fitting.design import Design, Further, Later, Round, Steps, Sums, Tabulated, designed, first_tables
from .ledger import opened
from .mechanisms.base import noise_scale
from .mechanisms.sums import ExtraKind, NoisySum
from .models.naive_bayes import NaiveBayesModel, Tables
from .models.release import Release
from .planning import Calibration, MechanismName, Split
from .private.counting import Progress, check_names
from .private.counting.kernel import BatchEncoder
from .private.counting.plan import column_spec
from .private.counting.source import guarded
from .private.door import fit
from .sampling import Entropy
from .schema import Numeric, Schema, merged

FloatArray = NDArray[np.float64]

LOOK = "second look"
LEAST_FEATURES = 4
"""With fewer there is nothing to choose between in a second look."""
FEWER_BINS = ((2.0, 4), (10.0, 6))
"""Where the average cell of a table has fewer records than this many times the noise, it gets so many bins."""
CLASS_LOSS, LEAST_FOR_CLASSES, MOST_FOR_CLASSES = 0.015, 0.02, 0.9
"""The loss of the class probabilities to aim for, and the least and the most of a second look that goes to them."""

ROUNDS = 3
ROUNDS_SHARE = 0.3
"""Of the budget, for all rounds together."""
LEAST_SIGNAL = 35.0
"""Rounds pay where N over the noise of one table reaches this many times the number of parameters."""
START = 0.5
"""The first expansion is taken at this part of the temperature: Newton overshoots from over-confident points."""
BIAS_WIDTH = 0.5
FIRST_WIDTHS = tuple((common, single) for common in (0.05, 0.2, 0.5) for single in (0.02, 0.05, 0.1, 0.2, 0.4))
LATER_WIDTHS = tuple((0.0, single) for single in (0.0, 0.05, 0.1, 0.2))


@discreet
def fit_naive_bayes(
    source: Any,
    schema: Schema,
    target: str,
    features: Sequence[str] | None = None,
    *,
    budget: Budget | BudgetWord | None,
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
    records: int | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    ledger: LedgerLike | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    many_cells: bool = False,
) -> NaiveBayesModel:
    """A naive Bayes classifier from one pass over the rows: one (feature, class) table for each feature.

    Args:
        source: rows; see `simplexdp.count`.
        schema: of the features and the class.
        target: the class column, which has declared categories only.
        features: the feature columns; all others of the schema by default.
        budget: for everything together.
        mechanism, calibration, estimate, neighbours, entropy: see `simplexdp.release`.
        split, reweight, second_look, merge_bins: see `NaiveBayesRecipe`.
        rows_per_person: the guarantee is for persons with at most so many rows, named by the column `person`.
        person: the column that names the person.
        records: the public number of records, if the source is a stream; under add-remove and for persons a guess.
        progress: called with the rows done and the rows in all.
        threads: that count; by default as many as the machine grants.
        ledger: a ledger or the path of one, charged before any value is looked at.
        dataset: the name that the ledger knows the data by, under which it was registered.
        many_cells: whether tables of far more cells than records are wanted; they are refused otherwise.
    """
    chosen: dict[str, Any] = {"split": split, "reweight": reweight, "second_look": second_look}
    recipe = NaiveBayesRecipe.of(Schema.given(schema), target, features, person=person, merge_bins=merge_bins, **chosen)
    how: dict[str, Any] = {"mechanism": mechanism, "calibration": calibration, "estimate": estimate}
    unit: dict[str, Any] = {"neighbours": neighbours, "rows_per_person": rows_per_person, "person": person}
    how |= {"dataset": dataset, "many_cells": many_cells}
    terms = Terms.of(budget, entropy=entropy, ledger=opened(ledger), **how, **unit)
    return fit(recipe, source, terms, records=records, progress=progress, threads=threads)


@dataclass(frozen=True, kw_only=True)
class NaiveBayesRecipe:
    """Naive Bayes before it has seen anything.

    The class probabilities come from the same tables, so K features cost K tables.

    Args:
        schema: of the features and the class.
        target: the class column.
        features: the feature columns.
        split: of the budget over the tables: "equal", "cells", weights, or "auto": equal for Algorithm 1, else in
            proportion to about √cells.
        reweight: spend 30 % of the budget on feature weights and class biases where public facts say that it pays: an
            estimate "posterior-mean", a known number of records that is large against the noise, and a source that can
            be read again.
        second_look: release the tables at half of their budget or less, then once more with the rest going to those
            that say most about the class, and to the classes alone where they need it; with Gaussian noise, four
            features or more and "posterior-mean".
        merge_bins: release neighbouring bins of numeric columns together where public facts say that the noise hides
            what single bins say; with "posterior-mean" and a known number of records. The model is over the declared
            bins all the same.
    """

    schema: Schema
    target: str
    features: tuple[str, ...]
    split: Split | Literal["auto"] = "auto"
    reweight: bool = True
    second_look: bool = True
    merge_bins: bool = True

    @classmethod
    def of(
        cls,
        schema: Schema,
        target: str,
        features: Sequence[str] | None = None,
        *,
        person: str | None = None,
        **settings: Any,
    ) -> NaiveBayesRecipe:
        """With all other columns of the schema as features, but for the one that names the person."""
        column = schema[target]
        if column.kind != "categories" or column.has_other or column.has_missing:
            raise InvalidArgument(
                "target", "a column with declared categories and no cell for other or missing values", got=target
            )
        names = tuple(n for n in schema.names if n not in (target, person)) if features is None else tuple(features)
        if not names or target in names:
            raise InvalidArgument("features", "at least one column, the target not among them", got=names)
        return cls(schema=schema, target=target, features=names, **settings)

    @property
    def what(self) -> str:
        """For the ledger."""
        return f"naive Bayes for {self.target}"

    @property
    def tables(self) -> Tabulated:
        """One (feature, class) table for each feature."""
        return Tabulated(columns=tuple(check_names((name, self.target)) for name in self.features), schema=self.schema)

    def design(self, facts: Facts, terms: Terms) -> Design:
        """The tables, over merged bins where the noise would hide single ones; a second look; Newton rounds."""
        exact = terms.estimate == "posterior-mean" and terms.calibration == "exact" and terms.is_noisy
        released = self.schema
        if self.merge_bins and exact:
            released = coarse_schema(self.schema, self.features, self.target, terms.budget, facts.size)
        split = self.split
        if split == "auto":
            split = auto_split(released, self.features, self.target) if exact else "equal"
        rounds, left_out = self._rounds(facts, terms, released) if exact else ([], ())
        return designed(
            self.tables, facts, terms, Later(rounds=rounds, released=released, split=split, left_out=left_out)
        )

    def _rounds(self, facts: Facts, terms: Terms, released: Schema) -> tuple[list[Round], tuple[str, ...]]:
        """What follows the tables, with its shares of the budget; and what is left out."""
        budget, total, classes = terms.budget, facts.size, self.schema[self.target].size
        noisy_sums = not (budget is not None and budget.is_pure)  # second looks and sums have Gaussian noise
        look_again = (
            self.second_look
            and noisy_sums
            and terms.mechanism in ("auto", "gaussian")
            and len(self.features) >= LEAST_FEATURES
        )
        rounds = round_shares(total, budget, len(self.features), classes) if self.reweight and noisy_sums else []
        left_out = ""
        if rounds and not facts.rows:
            rounds = []
            left_out = "keeps its rows where they are, so feature weights, which look at single ones, are left out"
        elif facts.is_public and total is None:
            left_out = "does not tell its number of records before it is read, so what rests on that number is left out"
        if left_out:
            _warn(left_out)
        left = 1 - sum(share for each in rounds for _, share in each.buys)
        # Half for the second look, and the more the more of it the classes alone need.
        alone = class_precision(total, classes) * noise_scale(budget, 1) ** 2 if budget and total else 0.0
        share = left * (1 + min(MOST_FOR_CLASSES, alone)) / 2
        cells = sum(math.prod(released.shape(names)) for names in self.tables.columns) + classes
        look = Round(name=LOOK, buys=(("tables", share),), tables=len(self.features) + 1, cells=cells, again=False)
        return [look] * look_again + rounds, (f"the source {left_out}",) if left_out else ()

    def follow(self, design: Design) -> Steps[NaiveBayesModel]:
        """Tables; the same again where they say most about the class; Newton rounds from there."""
        schema, releases = yield from first_tables(design)
        assert schema is not None
        if design.look is not None:
            weights = look_weights(releases, design.look.sigma, self.target)
            releases += yield Further(round=LOOK, weights=weights)
        declared = declared_schema(releases, schema)
        model = NaiveBayesModel.from_releases(releases, self.target, method=design.estimate, declared=declared)
        if not design.sums:
            return model
        tables = Tables.of(releases, self.target, declared)
        scores, temperature = Scores.of(tables.strata, tables.classes, tables.total), float(model.weights[0])
        found = yield from newton_rounds(scores, temperature, self.features, self.target, design.sums)
        return replace(model, weights=found[0], biases=found[1])


def _warn(reason: str) -> None:
    warn(
        f"The source {reason}. The guarantee is the same and the loss is larger. Give records= (the public number of "
        "records), and a file, a table or a data frame in place of a stream.",
        UtilityWarning,
    )


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
    """The declared columns of a model, if tables were released over merged bins of them or rules join features."""
    released = [column for release in releases for column in release.schema or ()]
    if not schema.never and all(column.size == schema[column.name].size for column in released):
        return None
    return schema.select(dict.fromkeys(column.name for column in released))


def auto_split(schema: Schema, features: Sequence[str], target: str) -> list[float]:
    """√cells of each table, which minimises the summed error of all cells; the cells are rounded to powers of two.

    Few different noises compose faster.
    """
    return [2.0 ** (round(math.log2(math.prod(schema.shape((name, target))))) / 2) for name in features]


def round_shares(total: float | None, budget: Budget | None, features: int, classes: int) -> list[Round]:
    """What the rounds get of the budget, from public facts: nothing where they would not pay."""
    if total is None or budget is None or classes < 2:
        return []
    if total < LEAST_SIGNAL * (features + classes) * noise_scale(budget, 1):
        return []
    # The grid of a sum must be fine against the rounding of a record's part, or the sums hold noise alone.
    share = ROUNDS_SHARE / (2 * ROUNDS)
    grid = NoisySum.of("matrix", noise_scale(budget, 1) / math.sqrt(share)).bound
    if grid < 16 * (features + classes) * classes:
        return []
    buys: tuple[tuple[ExtraKind, float], ...] = (("vector", share), ("matrix", share))
    return [Round(name=f"round {number}", buys=buys, kernel="newton") for number in range(ROUNDS)]


def newton_rounds(
    scores: Scores, temperature: float, features: tuple[str, ...], target: str, sums: Sequence[NoisySum]
) -> Steps[tuple[FloatArray, FloatArray]]:
    """Feature weights and class biases after one Newton round for each (vector, matrix) pair of sums."""
    classes = scores.start.size
    size = scores.size
    weights, biases = np.full(len(features), START * temperature), np.zeros(classes)
    expected = np.zeros(size)
    expected[: len(features)] = (1 - START) * temperature
    covariance = np.zeros((size, size))
    covariance[len(features) :, len(features) :] = np.eye(classes) * (BIAS_WIDTH / scores.bias_scale) ** 2
    for number, (vector, matrix) in enumerate(zip(sums[::2], sums[1::2], strict=True)):
        at = Expansion(scores=scores, weights=weights, biases=biases, features=features, target=target)
        gradient, hessian = yield Sums(round=f"round {number}", parameters=at, columns=(*features, target))
        unit = scores.gradient_size / (vector.bound - math.sqrt(size) / 2)
        square = scores.hessian_trace / (math.sqrt(matrix.bound) - math.sqrt(size * classes) / 2) ** 2
        step = newton_step(
            gradient.astype(np.float64) * unit,
            math.sqrt(vector.variance) * unit,
            hessian.astype(np.float64) * square,
            math.sqrt(matrix.variance) * square,
            expected=expected,
            covariance=covariance,
            widths=FIRST_WIDTHS if number == 0 else LATER_WIDTHS,
            features=len(features),
        )
        weights = weights + step.mean[: len(features)]
        biases = biases + scores.bias_scale * step.mean[len(features) :]
        expected, covariance = np.zeros(size), step.covariance
    return weights, biases


@discreet
def encode_batches(
    model: NaiveBayesModel, batches: Iterable[Any], label: str = "the rows"
) -> Iterator[list[NDArray[Any]]]:
    """Cell numbers of the model's features for Arrow record batches; the schema's rules apply, errors name no value."""
    if model.schema is None:
        raise InvalidArgument("model", "one whose releases have a schema")
    specs = [column_spec(model.schema[name]) for name in model.features]
    for batch in guarded(iter(batches), label):
        encoder = BatchEncoder(specs, None, max(1, batch.num_rows))
        for block in encoder.blocks(batch, label):
            yield list(block.codes)


@discreet
def predict_batches(
    model: NaiveBayesModel, batches: Iterable[Any], label: str = "the rows"
) -> Iterator[NDArray[np.float64]]:
    """P(class | row) for each Arrow record batch that has rows: rows × classes, in the order of the target's cells."""
    for codes in encode_batches(model, batches, label):
        yield np.exp(model.predict_log_proba(codes))
