"""What became of a request: waiting, under way, refused, lost, or a result with its downloads."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from ..errors import InvalidArgument, SimplexDPError
from ..ledger import Asked, Queue
from ..models import Model
from ..report import model_report
from ..schema import Schema
from ..synthetic import synthetic_records
from .guard import REPORT_POLICY
from .spec import RESULTS, Spec, whole_from
from .spending import Lost, Work
from .view import Ask, Refused, beside

MOST_RECORDS = 5_000_000
"""Synthetic records of one download."""
_USUAL_RECORDS = 1_000
_MOST_GIVEN = 400
_WAIT = 0.8


def asked_of(ask: Ask) -> Asked:
    """The request of an address."""
    ledger, key = ask.studio.ledger, ask.path["key"]
    found = None
    if ledger is not None and len(key) == 64 and not key.strip("0123456789abcdef"):
        found = Queue(ledger).get(key)
    if found is None:
        raise Refused(404, "There is no such request", "The ledger does not know it.")
    return found


def shown(ask: Ask) -> Response:
    """The page of a request; before it is asked, the step where it stands."""
    draft = ask.studio.drafts.get(ask.path["key"])
    try:
        asked = asked_of(ask)
    except Refused:
        if draft is None:
            raise
        return ask.go(f"/q/{draft.key}/{draft.step}")
    work = ask.studio.spender.work(asked.key)
    if asked.status == "sealed" and (work is None or work.is_over):
        return _result(ask, asked)
    return _state(ask, asked, work)


def _state(ask: Ask, asked: Asked, work: Work | None) -> Response:
    spec = Spec.of(asked.spec)
    going = work is not None and not work.is_over
    if ask.is_fragment:
        return ask.page("state.html", asked=asked, work=work, going=going)
    sentences, problem, unregistered = spec.sentences, "", False
    if asked.status == "waiting" and ask.studio.is_officer:
        try:
            ask.studio.opened().admit(
                spec.dataset, spec.source.rows(ask.studio.settings.folder), spec.schema, person=spec.unit.person
            )
        except SimplexDPError as error:
            problem, unregistered = str(error), ask.studio.opened().registration(spec.dataset) is None
    return ask.page(
        "asked.html",
        asked=asked,
        spec=spec,
        schema=spec.schema.to_yaml(),
        work=work,
        going=going,
        sentences=sentences,
        problem=problem,
        unregistered=unregistered,
        broken=_broken(ask, asked),
    )


def _broken(ask: Ask, asked: Asked) -> str:
    """Why a charged request cannot be taken up again; empty where it can."""
    if asked.status != "charged":
        return ""
    try:
        ask.studio.spender.results.staged_hash(asked)
    except Lost as error:
        return str(error)
    return ""


# -- deeds -------------------------------------------------------------------------------------------------------------


def decide(ask: Ask) -> Response:
    """The officer approves or refuses; what is approved is carried out."""
    asked, form = asked_of(ask), ask.form
    _officer(ask)
    if asked.status == "waiting":
        approved = form.text("decision") == "approve"
        if not approved and form.text("decision") != "refuse":
            raise Refused(422, "Nothing was decided", "The decision is to approve or to refuse.")
        queue = Queue(ask.studio.opened())
        asked = queue.decide(asked.key, approved=approved, reason=form.text("reason")[:500])
        if approved:
            ask.studio.spender.start(asked.key, register=form.has("register")).wait(_WAIT)
    return ask.go(f"/q/{asked.key}")


def resume(ask: Ask) -> Response:
    """Take up again what was approved or charged, and not finished."""
    asked = asked_of(ask)
    _officer(ask)
    if asked.status in ("free", "charged"):
        ask.studio.spender.start(asked.key, register=not asked.approval).wait(_WAIT)
    return ask.go(f"/q/{asked.key}")


def cancel(ask: Ask) -> Response:
    """Stop the work; the charge stays."""
    asked = asked_of(ask)
    _officer(ask)
    ask.studio.spender.cancel(asked.key)
    return ask.go(f"/q/{asked.key}")


def again(ask: Ask) -> Response:
    """A new request from this one, under a key of its own."""
    key = ask.path["key"]
    known = ask.studio.drafts.get(key)
    if known is None:
        body = asked_of(ask).spec
        spec = Spec.of(body)
        names = tuple((name, "", None) for name in Schema.from_yaml(spec.columns).names)
        said: dict[str, Any] = {"question": dict(body["question"]), "unit": dict(body["unit"])}
        said |= {"source": spec.source, "dataset": spec.dataset, "names": names, "columns": spec.columns}
        draft = ask.studio.drafts.new(**said, records=spec.records)
    else:
        draft = ask.studio.drafts.new(**{name: value for name, value in vars(known).items() if name != "key"})
    return ask.go(f"/q/{draft.key}/question")


def _officer(ask: Ask) -> None:
    if not ask.studio.is_officer:
        raise Refused(403, "This is for the officer", "A studio with the role analyst plans and asks; it never spends.")


# -- result ------------------------------------------------------------------------------------------------------------


def _result(ask: Ask, asked: Asked) -> Response:
    results, spec = ask.studio.spender.results, Spec.of(asked.spec)
    try:
        model = results.model(asked)
    except Lost as error:
        return ask.page("refused.html", status=410, title="The result is gone", text=str(error))
    form, names = ask.form, _names(model)
    chosen = form.texts("columns") or list(names[:1])
    answer, remarks, errors = None, [], {}
    try:
        found = model.query(chosen, _given(form.text("given"))) if names else model.query()
        answer, remarks = found.table(60), found.remarks
    except SimplexDPError as error:
        errors = beside(error, {"given": "given"}, "columns")
    certificate = model.certificate()
    return ask.page(
        "result.html",
        status=422 if errors else 200,
        asked=asked,
        spec=spec,
        title=model.title,
        certificate=certificate,
        names=names,
        chosen=chosen,
        given=form.text("given"),
        givens=_givens(model),
        answer=answer,
        remarks=remarks,
        errors=errors,
        records=spec.records or _USUAL_RECORDS,
        sampled=model.schema is not None,
        name=results.name(asked),
        command=spec.command(*_places(ask, asked)),
        script=spec.script(*_places(ask, asked)),
        results=RESULTS,
    )


def _places(ask: Ask, asked: Asked) -> tuple[str, str, str]:
    """Schema, ledger and output of the same request outside of the studio."""
    name = ask.studio.spender.results.name(asked)
    return f"{RESULTS}/{name}.schema.yaml", ask.studio.settings.ledger_name, f"{name}-again.json"


def _names(model: Model) -> tuple[str, ...]:
    return () if model.schema is None else tuple(model.schema.names)


def _givens(model: Model) -> list[str]:
    """What can be given in a query: each cell of each column."""
    if model.schema is None:
        return []
    cells = (f"{column.name} = {label}" for column in model.schema for label in column.labels)
    return list(itertools.islice(cells, _MOST_GIVEN))


def _given(text: str) -> dict[str, str] | None:
    name, there, label = text.partition(" = ")
    return {name: label} if there else None


def _model(ask: Ask) -> tuple[Asked, Model]:
    asked = asked_of(ask)
    if asked.status != "sealed":
        raise Refused(404, "There is no result yet", "The request is not sealed in the ledger.")
    try:
        return asked, ask.studio.spender.results.model(asked)
    except Lost as error:
        raise Refused(410, "The result is gone", str(error)) from None


def report(ask: Ask) -> Response:
    """The report with pictures, as a page of its own."""
    asked, model = _model(ask)
    headers = {"content-security-policy": REPORT_POLICY, "x-frame-options": "SAMEORIGIN"}
    return Response(_report(asked, model), media_type="text/html", headers=headers)


def _report(asked: Asked, model: Model) -> str:
    return model_report(model, dataset=asked.dataset, entry=str(asked.charge))


def document(ask: Ask) -> Response:
    """The release as its file."""
    asked, _ = _model(ask)
    results = ask.studio.spender.results
    return _download(results.path(asked).read_bytes(), "application/json", f"{results.name(asked)}.json")


def synthetic(ask: Ask) -> Response:
    """Synthetic records of the result, at no further budget, block by block."""
    asked, model = _model(ask)
    size = whole_from("records", ask.form.text("records", str(_USUAL_RECORDS)))
    if not 0 < size <= MOST_RECORDS:
        raise InvalidArgument("records", f"from 1 to {MOST_RECORDS:,}")
    if model.schema is None:
        raise InvalidArgument("records", "of a release with a schema")
    reader = synthetic_records(model, size)
    name = f"{ask.studio.spender.results.name(asked)}-synthetic.csv"
    return StreamingResponse(_csv(reader), media_type="text/csv", headers=_named(name))


def _csv(reader: Any) -> Iterator[bytes]:
    import pyarrow.csv as pc

    first = True
    for batch in reader:
        part = io.BytesIO()
        pc.write_csv(batch, part, pc.WriteOptions(include_header=first))
        first = False
        yield part.getvalue()


def bundle(ask: Ask) -> Response:
    """Everything about the result in one archive."""
    asked, model = _model(ask)
    spec, results = Spec.of(asked.spec), ask.studio.spender.results
    schema, ledger, out = _places(ask, asked)
    name = results.name(asked)
    files = {
        f"{name}.json": results.path(asked).read_text(encoding="utf-8"),
        f"{name}.html": _report(asked, model),
        f"{name}.certificate.txt": f"{model.certificate()}\n",
        f"{name}.schema.yaml": spec.schema.to_yaml(),
        f"{name}.sh": f"# Asks the same again, and is charged again.\n{spec.command(schema, ledger, out)}\n",
        f"{name}.py": spec.script(schema, ledger, out),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return _download(packed.getvalue(), "application/zip", f"{name}.zip")


def _download(content: bytes, kind: str, name: str) -> Response:
    return Response(content, media_type=kind, headers=_named(name))


def _named(name: str) -> dict[str, str]:
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-._") else "-" for letter in name)
    return {"content-disposition": f'attachment; filename="{plain}"'}


ROUTES: list[tuple[str, Any, tuple[str, ...]]] = [
    ("/q/{key}", shown, ("GET",)),
    ("/q/{key}/decide", decide, ("POST",)),
    ("/q/{key}/resume", resume, ("POST",)),
    ("/q/{key}/cancel", cancel, ("POST",)),
    ("/q/{key}/again", again, ("POST",)),
    ("/q/{key}/report", report, ("GET",)),
    ("/q/{key}/release", document, ("GET",)),
    ("/q/{key}/synthetic", synthetic, ("GET",)),
    ("/q/{key}/bundle", bundle, ("GET",)),
]
