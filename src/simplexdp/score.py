"""How well a model predicts rows, privately: accuracy and bounded log-loss with noise, from a budget or a ledger.

A score on sensitive rows tells of them like any other number. Here each row adds one bounded whole-number vector, and
the sum gets discrete Gaussian noise. Proof: docs/proofs/sums.md.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from .budget import Budget, BudgetWord
from .errors import InvalidArgument, discreet
from .fitting import Facts, LedgerLike, Terms
from .fitting.design import Design, Judged, Later, Round, Steps, Sums, Tabulated, designed, first_tables
from .ledger import opened
from .models.certificate import Certificate, certify
from .models.guarantee import Guarantee
from .models.model import Model, Predictor
from .models.release import Release
from .private.door import fit
from .shown import Shown

CLIP = 4.0
"""A row with a class of probability below e^−4 counts as that, unless said otherwise; more clip is more noise."""
_SHARE = 0.9
"""Of the budget for the score; the rest is for the class table, whose largest class is what a model has to beat."""
_ROUND = "score"
SAME_PERSONS = "persons are told apart by one column in all of these fits"
"""What a certificate of several fits rests on where persons are hidden; a guarantee does not know the column."""


@dataclass(frozen=True, kw_only=True)
class PrivateScore(Shown):
    """What a model scored, with the standard deviation of the noise of each number.

    Args:
        accuracy: share of rows whose class has the highest probability.
        accuracy_error: of its noise.
        log_loss: mean of −ln P(class), each row bounded by `clip`.
        log_loss_error: of its noise.
        clip: the bound.
        largest_class: share of the largest class, which is the accuracy of a model that knows no more.
        records: rows that were scored, as far as is public.
        guarantee: of the score.
        releases: the class table.
        not_private: reasons, if there are any.
    """

    accuracy: float
    accuracy_error: float
    log_loss: float
    log_loss_error: float
    clip: float
    largest_class: float
    records: float
    guarantee: Guarantee
    releases: tuple[Release, ...]
    not_private: tuple[str, ...] = ()

    def certificate(self) -> Certificate:
        """The promise of the score by itself; `together` adds up several."""
        return together(self)

    def _columns(self) -> dict[str, list[Any]]:
        return {
            "measure": ["accuracy", "log-loss", "largest class"],
            "value": [self.accuracy, self.log_loss, self.largest_class],
            "standard_error": [self.accuracy_error, self.log_loss_error, None],
        }

    def __repr__(self) -> str:
        return (
            f"PrivateScore(accuracy={self.accuracy:.4f} ± {self.accuracy_error:.2g}, "
            f"log_loss={self.log_loss:.4f} ± {self.log_loss_error:.2g})"
        )


@dataclass(frozen=True, kw_only=True)
class ScoreRecipe:
    """The class table, then one noisy sum over all rows at the released model."""

    judged: Judged
    tables: Tabulated
    not_private: tuple[str, ...] = ()
    what: str = "a private score"

    def design(self, facts: Facts, terms: Terms) -> Design:
        """Everything that is released."""
        step = Round(name=_ROUND, buys=(("vector", _SHARE),), kernel="score")
        return designed(self.tables, facts, terms, Later(rounds=(step,)))

    def follow(self, design: Design) -> Steps[PrivateScore]:
        """Table, sum, score."""
        _, (release,) = yield from first_tables(design)
        columns = (*self.judged.features, self.judged.target)
        (found,) = yield Sums(round=_ROUND, parameters=self.judged, columns=columns)
        (bought,) = design.bought[_ROUND]
        assert not isinstance(bought, Release)
        bound, deviation = bought.bound, math.sqrt(float(bought.drawn_with))  # type: ignore[attr-defined, arg-type]
        unit = self.judged.steps(bound)
        records = max(float(release.total or release.noisy.likely_total), 1.0)
        shares = found / (unit * records)
        error = deviation / (unit * records)
        clip = self.judged.clip
        return PrivateScore(
            accuracy=float(min(max((1 + shares[0]) / 2, 0), 1)),
            accuracy_error=error / 2,
            log_loss=float(min(max(clip * (1 + shares[1]) / 2, 0), clip)),
            log_loss_error=clip * error / 2,
            clip=clip,
            largest_class=float(release.probabilities.max()),
            records=records,
            guarantee=design.guarantee,
            releases=(release,),
            not_private=tuple(dict.fromkeys((*release.not_private, *self.not_private))),
        )


@discreet
def private_score(
    model: Model,
    source: Any,
    *,
    budget: Budget | BudgetWord,
    target: str | None = None,
    clip: float = CLIP,
    ledger: LedgerLike | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    **granted: Any,
) -> PrivateScore:
    """Accuracy and bounded log-loss of a released model on sensitive rows.

    Rows that the model was fitted on give a flattering score, and cost budget once more; keep some rows apart.

    Args:
        model: a published model that predicts: naive Bayes or a network.
        source: rows with the columns of the model, as `fit` takes them.
        budget: what the score may spend; with a ledger also "remaining" or "half".
        target: the class column; needed for a network.
        clip: the most that one row can add to the log-loss.
        ledger: charged before any row is looked at; needs `dataset`.
        dataset: the name that the ledger knows the data by.
        granted: neighbours, rows_per_person, person, entropy, records, progress: as in a fit.
    """
    if not isinstance(model, Predictor) or model.schema is None:
        raise InvalidArgument("model", "one with a schema that predicts", got=type(model).__name__)
    wanted, evidence = model.question(target or getattr(model, "target", None), None, model.schema.names)
    judged = Judged(model=model, target=wanted, features=evidence, clip=clip)
    tables = Tabulated(columns=((wanted,),), schema=model.schema, also=evidence)
    # What one record does to the score has a bound only if the model was released, or is public.
    reasons = tuple(f"the model: {why}" for why in model.not_private)
    recipe = ScoreRecipe(judged=judged, tables=tables, not_private=reasons)
    aside = {name: granted.pop(name) for name in ("records", "progress") if name in granted}
    terms = Terms.of(budget, ledger=opened(ledger), dataset=dataset, mechanism="gaussian", **granted)
    return fit(recipe, source, terms, **aside)


def together(*made: Any) -> Certificate:
    """One certificate for several fits and scores of the same rows: the exact composition of all of them.

    >>> from simplexdp import Budget, release
    >>> budget = Budget.zcdp(rho=0.01)
    >>> fits = [release([30, 50, 20], budget=budget) for _ in range(4)]
    >>> round(together(*fits).guarantee["zcdp_rho"], 4)
    0.04

    Args:
        made: releases, models and private scores, under the same neighbours and unit, all of them: also those that were
            made only to choose another.
    """
    if not made:
        raise InvalidArgument("made", "one release, model or score at least")
    parts = [each.guarantee for each in made]
    first = parts[0]
    if len({(each.neighbours, each.unit, each.rows) for each in parts}) > 1:
        raise InvalidArgument("made", "under the same neighbours, unit and rows for each person")
    whole = Guarantee(
        mechanisms=tuple(m for each in parts for m in each.mechanisms),
        neighbours=first.neighbours,
        unit=first.unit,
        rows=first.rows,
        pure=tuple(e for each in parts for e in each.pure),
        left_out=tuple(dict.fromkeys(text for each in parts for text in each.left_out)),
    )
    releases = [release for each in made for release in each.releases]
    same = (SAME_PERSONS,) if first.unit == "person" and len(made) > 1 else ()
    origins = [release.schema.origin for release in releases if release.schema is not None]
    return certify(
        whole,
        schema_origin=next((o for o in origins if o not in ("declared", "public")), origins[0] if origins else None),
        entropy="seeded" if any(release.entropy == "seeded" for release in releases) else "operating-system",
        not_private=tuple(dict.fromkeys(reason for each in (*made, *releases) for reason in each.not_private)),
        declarations=tuple(dict.fromkeys((*(text for each in releases for text in each.declarations), *same))),
    )
