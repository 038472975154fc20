"""Requests in the making: what the user has said so far, kept in a file each so that nothing is lost by a restart."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..budget import Unit
from ..errors import InvalidArgument, SimplexDPError
from ..ledger.registry import check_hash
from ..models.document import write_file
from ..schema import Schema
from .columns import finished
from .questions import Question, question_of
from .spec import Source, Spec, budget_of, unit_of

PLACE = ".simplexdp-studio"
"""The folder of drafts, below that of the studio."""
STEPS = ("columns", "question", "unit", "budget")
MOST_KEPT = 200


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What was said so far.

    Args:
        key: what the request will have in the ledger.
        source: where the rows are.
        dataset: the name that the ledger will know them by.
        names: names, declared types and suggested templates of the columns of the source.
        columns: the schema as text, with what is to be filled in.
        question, unit, budget: as plain data, empty until they are said.
        records: about how many records there are, where the number is not public.
        found: the public number of records, where it was found.
        note: what was done for the user, to tell.
    """

    key: str
    source: Source
    dataset: str
    names: tuple[tuple[str, str, str | None], ...]
    columns: str
    question: dict[str, Any] = field(default_factory=dict)
    unit: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    records: int | None = None
    found: int | None = None
    note: str = ""

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self), "source": self.source.to_body(), "names": [list(each) for each in self.names]}

    @classmethod
    def from_body(cls, body: dict[str, Any], key: str) -> Draft:
        """The inverse, for the file that is named by this key: it is written again under the name that its key says."""
        if check_hash("key", key) != body["key"]:
            raise InvalidArgument("key", "that of the name of its file")
        names = tuple((str(name), str(kind), template) for name, kind, template in body["names"])
        return cls(**body | {"source": Source.of(body["source"]), "names": names})

    @property
    def schema(self) -> Schema:
        """The columns that are decided."""
        return finished(self.columns)

    @property
    def asked(self) -> Question:
        """The question."""
        return question_of(self.question)

    @property
    def whose(self) -> Unit:
        """The unit."""
        return unit_of(self.unit)

    @property
    def step(self) -> str:
        """The first step that is not done."""
        for step, said in zip(STEPS[1:], (self.question, self.unit), strict=False):
            if not said:
                with contextlib.suppress(SimplexDPError):
                    _ = self.schema
                    return step
                return STEPS[0]
        return "budget"

    @property
    def size(self) -> int | None:
        """How many records there are, or are said to be."""
        return self.records if self.found is None else self.found

    def spec(self, **budget: float) -> Spec:
        """The request, with this budget in place of the draft's."""
        return Spec(
            source=self.source,
            dataset=self.dataset,
            columns=self.schema.to_yaml(),
            question=self.asked,
            unit=self.whose,
            budget=budget_of(budget or self.budget),
            records=self.records,
        )


class Drafts:
    """All drafts of a folder.

    Args:
        folder: of the studio.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder / PLACE
        self._lock = threading.RLock()
        self._kept: dict[str, Draft] = {}
        for path in sorted(self._place.glob("*.json"), key=_age)[-MOST_KEPT:]:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, InvalidArgument):
                draft = Draft.from_body(json.loads(path.read_text(encoding="utf-8")), path.stem)
                self._kept[draft.key] = draft

    def __iter__(self) -> Iterator[Draft]:
        with self._lock:
            return iter(list(self._kept.values())[::-1])

    def get(self, key: str) -> Draft | None:
        """The draft with this key."""
        return self._kept.get(key)

    def new(self, **said: Any) -> Draft:
        """Begin one, under a key of its own."""
        return self.keep(Draft(key=secrets.token_hex(32), **said))

    def change(self, draft: Draft, **said: Any) -> Draft:
        """Say something else."""
        return self.keep(replace(draft, **{"note": "", **said}))

    def keep(self, draft: Draft) -> Draft:
        """Keep it, in memory and on disk."""
        with self._lock:
            self._kept.pop(draft.key, None)
            self._kept[draft.key] = draft
            while len(self._kept) > MOST_KEPT:
                self._remove(next(iter(self._kept)))
            self._place.mkdir(mode=0o700, exist_ok=True)
            write_file(self._place / f"{draft.key}.json", json.dumps(draft.to_body()))
        return draft

    def drop(self, key: str) -> None:
        """Forget it."""
        with self._lock:
            if key in self._kept:
                self._remove(key)

    def _remove(self, key: str) -> None:
        del self._kept[key]
        (self._place / f"{key}.json").unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
