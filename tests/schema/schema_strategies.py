"""Hypothesis strategies for columns and schemas of every kind."""

from hypothesis import strategies as st

from simplexdp.schema import Categories, Numeric, Quantiles, Schema

# Lone surrogates are no Unicode text; NUL and other controls are.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# What YAML 1.1 or 1.2 would read as something else if it were not quoted.
TRAPS = "no Yes on off y ~ null 1 1.0 1e3 0o14 017 1_000 1:30 2024-01-31 true True .nan << = - # &a *a !!int é"
traps = st.sampled_from([*TRAPS.split(), "", " ", "- a", "a: b", "\x85", "\ufeff"])
names = traps.filter(bool) | text.filter(bool)
numbers = st.floats(allow_nan=False, allow_infinity=False)
keep = st.sampled_from(["cell", "refuse"])
origins = st.sampled_from(["declared", "public", "from-data", "paper-discretisation"])
outside = st.sampled_from(["cell", "refuse", "nearest"])


@st.composite
def categories(draw):
    kinds = [text | traps, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.dates()]
    values = draw(st.lists(draw(st.sampled_from(kinds)), min_size=1, max_size=6, unique=True))
    return Categories(values, name=draw(names), other=draw(keep), missing=draw(keep), origin=draw(origins))


@st.composite
def numeric(draw):
    edges = sorted(draw(st.lists(numbers, min_size=2, max_size=6, unique=True)))
    own = draw(st.lists(numbers, max_size=3, unique=True))
    return Numeric(edges, own=own, name=draw(names), outside=draw(outside), missing=draw(keep), origin=draw(origins))


@st.composite
def quantiles(draw):
    lower, upper = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    share = draw(st.floats(0, 0.2, exclude_min=True))
    fields = {"name": draw(names), "outside": draw(outside), "missing": draw(keep), "origin": draw(origins)}
    return Quantiles(draw(st.integers(2, 50)), lower=lower, upper=upper, share=share, **fields)


@st.composite
def schemas(draw):
    columns = draw(
        st.lists(
            categories() | numeric() | quantiles(),
            min_size=1,
            max_size=4,
            unique_by=lambda column: column.name,
        )
    )
    return Schema(columns, origin=draw(origins))
