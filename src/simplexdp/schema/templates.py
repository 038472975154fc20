"""Public facts that many tables share, by name: `age-5` or `{template: year, from: 2015, to: 2024}` for a column.

A template is short for fields of a column, and a field that is given beside it goes before its own. What it does not
list, and what is missing, has a cell, so that no value of a messy table is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from ..errors import SchemaError
from .never import did_you_mean

Fields = dict[str, Any]

_OLDEST, _TOPMOST = 100, 120
"""Ages beyond the first share one bin, which ends with the second."""
_STAGES = (0, 6, 12, 18, 25, 45, 65, 80, 120)
_LAST_YEAR_OF_RANGE = 200
"""Years that a range may have."""
EXAMPLES = {"year": {"from": 2015, "to": 2024}, "iso-year": {"from": 2015, "to": 2024}}
"""Settings that a template cannot do without, as an example."""
_RANGES = {"month": 12, "quarter": 4, "week": 53, "weekday": 7, "day": 31}

_HINTS: tuple[tuple[str, str], ...] = (
    (r"age|alter|edad|[aâ]ge", "age-5"),
    (r"sex|gender|geschlecht", "sex"),
    (r"weekday|dow|wochentag", "weekday"),
    (r"week|woche", "week"),
    (r"month|monat|mois|mes", "month"),
    (r"quarter|quartal", "quarter"),
    (r"year|jahr|annee|año|yr", "{template: year, from: 2000, to: 2030}"),
    (r"date|datum|day|dob|born|birth|admitted|discharged|time|timestamp", "{template: year, from: 2000, to: 2030}"),
    (r"country|land|nation|nationality|pays", "country"),
    (r"state|region|province|canton|kanton|bundesland", "region-us"),
    (r"zip|zipcode|postcode|postal|plz", "postcode-2"),
    (r"icd|icd10|diagnosis|diag|dx", "icd-10-chapter"),
    (r"nace|isic|industry|branch", "nace-section"),
    (r"income|salary|wage|price|cost|amount|charge|payment|revenue|loan|balance|einkommen|betrag", "money"),
    (r"is|has|flag|ill|smoker|smokes|married|employed|deceased|consent|insured|active", "yes-no"),
)
"""What a word in the name of a column suggests; only suggested, never filled in."""


@cache
def facts() -> Mapping[str, Any]:
    """The lists of public facts."""
    import yaml

    found: Mapping[str, Any] = yaml.safe_load(
        resources.files(__package__).joinpath("public_facts.yaml").read_text(encoding="utf-8")
    )
    return found


def known() -> list[str]:
    """The names of all templates, for messages and the documentation."""
    regions = [f"region-{country}" for country in facts()["regions"]]
    return ["age-5", "age-10", "age-1", *(name for name in _MAKERS if name != "isic-section"), "isic-section",
            "postcode-1", "postcode-2", "postcode-3", *regions]  # fmt: skip


def suggested(name: str) -> str | None:
    """The template that the name of a column suggests, from its words."""
    words = re.findall(r"[^\W\d_]+\d*", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    for pattern, template in _HINTS:
        if any(re.fullmatch(pattern, word, re.IGNORECASE) for word in words):
            return template
    return None


def expanded(fields: Mapping[str, Any]) -> Fields:
    """The fields of a column whose template, if it has one, is written out; its own fields go before.

    >>> expanded({"name": "month of birth", "template": "month", "missing": "refuse"})["missing"]
    'refuse'
    """
    own = dict(fields)
    name = own.pop("template", None)
    if name is None:
        return own
    settings: Fields = {key: own.pop(key) for key in ("from", "to") if key in own}
    made = _made(name, settings)
    if settings:
        raise SchemaError(min(settings), f"left out: the template {name} has no such setting")
    chain = [*_listed(own.pop("transform", ())), *made.pop("transform", ())]
    return made | own | ({"transform": chain} if chain else {})


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, (str, Mapping)) else list(value)


def _made(name: object, settings: Fields) -> Fields:
    if isinstance(name, str):
        if match := re.fullmatch(r"age-([1-9][0-9]?)", name):
            return _ages(int(match[1]))
        if match := re.fullmatch(r"postcode-([1-3])", name):
            return _postcodes(int(match[1]))
        if name.startswith("region-") and name.removeprefix("region-") in facts()["regions"]:
            return _codes(facts()["regions"][name.removeprefix("region-")])
        if name in _MAKERS:
            return _MAKERS[name](settings)
    hint = f"{did_you_mean(name, known())}Templates are {', '.join(known())}."
    raise SchemaError("template", "a known template", hint=hint)


def _ages(step: int) -> Fields:
    edges = [*range(0, _OLDEST, step), _OLDEST, _TOPMOST]
    return {"edges": edges, "integer": True, "outside": "cell", "missing": "cell"}


def _postcodes(digits: int) -> Fields:
    values = ["".join(code) for code in itertools.product("0123456789", repeat=digits)]
    return _categories(values, ["trim", {"prefix": digits}])


def _codes(listed: str) -> Fields:
    return _categories(listed.split(), ["trim", "upper"])


def _categories(values: list[Any], transform: list[Any]) -> Fields:
    return {"values": values, "transform": transform, "other": "cell", "missing": "cell"}


def _part(part: str) -> Callable[[Fields], Fields]:
    return lambda _: _categories(list(range(1, _RANGES[part] + 1)), [{"part": part}])


def _hours(_: Fields) -> Fields:
    return _categories(list(range(24)), [{"part": "hour"}])


def _years(part: str) -> Callable[[Fields], Fields]:
    def years(settings: Fields) -> Fields:
        first, last = settings.pop("from", None), settings.pop("to", None)
        if type(first) is not int or type(last) is not int or not 0 <= last - first < _LAST_YEAR_OF_RANGE:
            raise SchemaError("from", "a year, with a later one as `to`", hint="{template: year, from: 2015, to: 2024}")
        return _categories(list(range(first, last + 1)), [{"part": part}])

    return years


def _money(settings: Fields) -> Fields:
    """0 and 1, 2, 5, 10, ... times `from`, up to `to`: round numbers."""
    lowest, highest = settings.pop("from", 100), settings.pop("to", 1_000_000)
    if any(type(one) not in (int, float) for one in (lowest, highest)) or not 0 < lowest < highest:
        raise SchemaError("from", "above 0 and below `to`", hint="{template: money, from: 100, to: 1000000}")
    return {
        "edges": [0, *_round(lowest, highest)],
        "outside": "cell",
        "missing": "cell",
        "transform": ["trim", {"decimal": "."}],
    }


def _round(lowest: float, highest: float) -> Iterator[float]:
    """1, 2, 5, 10, ... times the lowest, and the highest."""
    scale = lowest
    while True:
        for factor in (1, 2, 5):
            if scale * factor >= highest:
                yield highest
                return
            yield scale * factor
        scale *= 10


def _spelled(name: str) -> Callable[[Fields], Fields]:
    def spelled(_: Fields) -> Fields:
        spellings = {one: meant for meant, listed in facts()[name].items() for one in listed.split()}
        return _categories(sorted(facts()[name]), ["trim", "fold", {"map": spellings}])

    return spelled


def _sections(name: str) -> Callable[[Fields], Fields]:
    """The chapter or section by the first two characters of a code."""

    def sections(_: Fields) -> Fields:
        found = {code: section for section, spans in facts()[name].items() for code in _span(spans)}
        return _categories(list(facts()[name]), ["trim", "upper", {"prefix": 2}, {"map": found}])

    return sections


def _span(spans: str) -> Iterator[str]:
    for span in spans.split():
        first, last = span.split("-")
        letter = first[:1] if first[:1].isalpha() else ""
        for number in range(int(first.removeprefix(letter)), int(last.removeprefix(letter)) + 1):
            yield f"{letter}{number}" if letter else f"{number:02}"


_MAKERS: dict[str, Callable[[Fields], Fields]] = {
    "life-stage": lambda _: {"edges": list(_STAGES), "integer": True, "outside": "cell", "missing": "cell"},
    "sex": _spelled("sex"),
    "yes-no": _spelled("yes-no"),
    "year": _years("year"),
    "iso-year": _years("isoyear"),
    **{part: _part(part) for part in _RANGES},
    "hour": _hours,
    "money": _money,
    "country": lambda _: _codes(facts()["country"]),
    "icd-10-chapter": _sections("icd-10-chapter"),
    "nace-section": _sections("nace-section"),
    "isic-section": _sections("nace-section"),
}
