"""The three networks of the paper's figure, parts of the graphs of Le Quy et al. (2022)."""

from __future__ import annotations

Graph = dict[str, tuple[str, ...]]
"""Each node with its parents, parents first."""

GRAPHS: dict[str, Graph] = {
    "Adult": {
        "age": (),
        "sex": (),
        "education": ("age",),
        "occupation": ("age", "sex", "education"),
        "capital-gain": ("sex", "education", "occupation"),
        "capital-loss": ("sex", "occupation", "capital-gain"),
        "income": ("occupation", "capital-gain", "capital-loss"),
    },
    "Bank": {
        "month": (),
        "day_of_week": (),
        "housing": ("month",),
        "pdays": ("housing", "month"),
        "poutcome": ("housing", "pdays"),
        "previous": ("poutcome",),
        "contact": ("previous", "month"),
        "campaign": ("day_of_week", "month"),
        "duration": ("housing", "contact", "campaign"),
        "y": ("poutcome", "duration", "month"),
    },
    "SouthGermanCredit": {
        "housing": (),
        "property": ("housing",),
        "age": ("housing",),
        "amount": ("property",),
        "other_debtors": ("property",),
        "personal_status_sex": ("amount",),
        "purpose": ("amount",),
        "installment_rate": ("amount",),
        "duration": ("amount", "installment_rate"),
        "people_liable": ("personal_status_sex",),
        "foreign_worker": ("duration",),
        "number_credits": ("age",),
        "credit_history": ("number_credits",),
        "other_installment_plans": ("credit_history",),
    },
}
PAPER_NAMES = {"Adult": "Adult", "Bank": "Bank", "SouthGermanCredit": "GermanCredit"}
