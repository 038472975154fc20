"""The last step of a request: what it would lose and cost, and the one button that spends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from ..budget import Budget, check_delta, check_positive
from ..errors import InvalidArgument, SimplexDPError
from ..ledger import Ledger, Queue
from ..numerics.printed import printed
from .drafts import Draft
from .foresight import LEAST, MOST, Foreseen
from .server import WHOLE
from .spec import Spec, digest_of, number_from, whole_from
from .steps import DELTA, EPSILON, draft_of
from .view import Ask, beside

SMALLEST, LARGEST = 1e-3, 100.0
"""ε that a request may have."""
_OPENING_WAIT = 1.5
"""Seconds that the answer to the button waits for a refusal or a quick result."""


def budget(ask: Ask) -> Response:
    """What it would cost and lose; nothing is spent."""
    draft = draft_of(ask)
    if not draft.unit:
        return ask.go(f"/q/{draft.key}/unit")
    return _budget_page(ask, draft, {})


def _budget_page(ask: Ask, draft: Draft, errors: dict[str, str]) -> Response:
    form, ledger = ask.form, ask.studio.ledger
    whole = None if ledger is None else ledger.terms.budget
    delta0 = DELTA if whole is None or whole.delta is None else whole.delta
    before = draft.budget
    said = {
        "epsilon": form.text("epsilon", str(before.get("epsilon", EPSILON))),
        "delta": form.text("delta", str(before.get("delta", delta0))),
        "error": form.text("error"),
        "like": form.text("like"),
        "whole_epsilon": form.text("whole_epsilon", repr(WHOLE.epsilon)),
        "whole_delta": form.text("whole_delta", repr(WHOLE.delta)),
    }
    errors, foreseen = dict(errors), None
    try:
        delta = check_delta("delta", number_from("delta", said["delta"]))
        like = tuple(whole_from("like", part) for part in said["like"].replace("\n", ",").split(",") if part.strip())
        if any(count < 0 or count > 1 << 40 for count in like) or len(like) > 2000 or (like and not any(like)):
            raise InvalidArgument("like", "public counts, 0 or more, with commas between them")
        foresight = ask.studio.foresight(draft, delta, like, None if ledger else _whole(said))
        if said["error"] and (form.text("by") == "error" or not form.has("epsilon")):
            wanted = check_positive("error", number_from("error", said["error"]))
            said["epsilon"] = printed(foresight.epsilon_for(wanted))
        epsilon = _epsilon(said["epsilon"])
        kept = ask.is_post or form.text("fast") == "1" or before == {"epsilon": epsilon, "delta": delta}
        if not kept:
            draft = ask.studio.drafts.change(draft, budget={"epsilon": epsilon, "delta": delta}, note=draft.note)
        quick = foresight.between(epsilon) if form.text("fast") == "1" else None
        foreseen = quick or foresight.exact(epsilon)
    except SimplexDPError as error:
        fields = {name: name for name in said}
        errors = {**beside(error, fields, "epsilon"), **errors}
    return _budget_shown(ask, draft, said, errors, foreseen)


def _budget_shown(
    ask: Ask, draft: Draft, said: dict[str, str], errors: dict[str, str], foreseen: Foreseen | None
) -> Response:
    ledger, spec, sentences, digest = ask.studio.ledger, None, ("", ""), ""
    try:
        spec = draft.spec(epsilon=number_from("epsilon", said["epsilon"]), delta=number_from("delta", said["delta"]))
        sentences, digest = spec.sentences, digest_of(spec.to_body())
    except SimplexDPError as error:
        errors = {"": str(error), **errors}
    return ask.page(
        "foreseen.html" if ask.is_fragment else "budget.html",
        status=422 if errors and not ask.is_fragment else 200,
        draft=draft,
        step="budget",
        said=said,
        foreseen=foreseen,
        errors=errors,
        least=LEAST,
        most=MOST,
        whole=None if ledger is None else ledger.terms.budget,
        is_new=ledger is None,
        registers=_registers(ask, spec),
        sentences=sentences,
        digest=digest,
        size=draft.size,
        public=draft.found is not None,
    )


def _registers(ask: Ask, spec: Spec | None) -> bool:
    """Whether all rows are read once more, to check them against the columns."""
    ledger = ask.studio.ledger
    return ledger is None or spec is None or ledger.registration(spec.dataset) is None


def _check_registered(ask: Ask, ledger: Ledger, spec: Spec) -> None:
    """Refuse what a registration does not admit, before it is asked; what is not registered yet may be asked."""
    if ledger.registration(spec.dataset) is not None:
        ledger.admit(spec.dataset, spec.source.rows(ask.studio.settings.folder), spec.schema, person=spec.unit.person)


def spend(ask: Ask) -> Response:
    """The one button. The request goes into the queue under its key; the officer's is charged and drawn at once."""
    form, studio, key = ask.form, ask.studio, ask.path["key"]
    ledger = studio.ledger
    if ledger is not None and Queue(ledger).get(key) is not None:
        return ask.go(f"/q/{key}")  # sent before: a double click, a reload, another tab
    draft = draft_of(ask)
    if not draft.unit:
        return ask.go(f"/q/{key}")
    try:
        epsilon, delta = _epsilon(form.text("epsilon")), number_from("delta", form.text("delta"))
        spec = draft.spec(epsilon=epsilon, delta=delta)
        if form.text("digest") != digest_of(spec.to_body()):
            studio.drafts.change(draft, budget={"epsilon": spec.budget.epsilon, "delta": spec.budget.delta})
            raise InvalidArgument(
                "epsilon", "the one that the sentences above the button name", hint="Look at them, and press it again."
            )
        whole = None if ledger else _whole({name: form.text(name) for name in ("whole_epsilon", "whole_delta")})
        foreseen = studio.foresight(draft, delta, (), whole).exact(epsilon)
        if foreseen.problem:
            raise InvalidArgument("epsilon", "one that the ledger can pay", hint=foreseen.problem)
        if ledger is None:
            ledger = _started(ask, spec)
        _check_registered(ask, ledger, spec)
        asked = Queue(ledger).ask(
            key,
            dataset=spec.dataset,
            description=spec.description,
            spec=spec.to_body(),
            approval=not studio.is_officer,
        )
    except SimplexDPError as error:
        names = ("epsilon", "delta", "whole_epsilon", "whole_delta")
        return _budget_page(ask, draft, beside(error, {name: name for name in names}, "spend"))
    if asked.status == "free":
        studio.spender.start(key).wait(_OPENING_WAIT)
    return ask.go(f"/q/{key}")


def _started(ask: Ask, spec: Spec) -> Ledger:
    """The ledger of the folder, which is started by the first request."""
    if not ask.studio.is_officer:
        raise InvalidArgument("ledger", "started by the officer first")
    form = ask.form
    whole = _whole({name: form.text(name) for name in ("whole_epsilon", "whole_delta")})
    if whole.epsilon < spec.budget.epsilon:
        raise InvalidArgument("whole_epsilon", f"{printed(spec.budget.epsilon)} or more, what this request asks for")
    Ledger.open(ask.studio.settings.ledger, budget=whole, neighbours=spec.unit.neighbours)
    return ask.studio.opened()


def _epsilon(text: str) -> float:
    """The ε of a request: beyond these ends nothing is hidden, or nothing is left."""
    epsilon = number_from("epsilon", text)
    if not SMALLEST <= epsilon <= LARGEST:
        raise InvalidArgument("epsilon", f"from {SMALLEST:g} to {LARGEST:g}")
    return epsilon


def _whole(said: Mapping[str, str]) -> Budget:
    """The budget of each data set in a ledger that is to be started."""
    epsilon = check_positive("whole_epsilon", number_from("whole_epsilon", said["whole_epsilon"]))
    return Budget(epsilon=epsilon, delta=check_delta("whole_delta", number_from("whole_delta", said["whole_delta"])))


ROUTES: list[tuple[str, Any, tuple[str, ...]]] = [
    ("/q/{key}/budget", budget, ("GET",)),
    ("/q/{key}/spend", spend, ("POST",)),
]
