"""Made-up tables with the columns of the data sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .catalogue import known
from .headers import HEADERS
from .table import Table

SHAPES: dict[str, tuple[tuple[str, int], ...]] = {
    "CreditCard": (
        ("LIMIT_BAL", 0),
        ("SEX", 2),
        ("EDUCATION", 7),
        ("MARRIAGE", 4),
        ("AGE", 0),
        ("PAY_0", 11),
        ("PAY_2", 11),
        ("PAY_3", 11),
        ("PAY_4", 11),
        ("PAY_5", 10),
        ("PAY_6", 10),
        ("BILL_AMT1", 0),
        ("BILL_AMT2", 0),
        ("BILL_AMT3", 0),
        ("BILL_AMT4", 0),
        ("BILL_AMT5", 0),
        ("BILL_AMT6", 0),
        ("PAY_AMT1", 0),
        ("PAY_AMT2", 0),
        ("PAY_AMT3", 0),
        ("PAY_AMT4", 0),
        ("PAY_AMT5", 0),
        ("PAY_AMT6", 0),
    ),
    "Thyroid": (
        ("age", 0),
        ("sex", 2),
        ("on_thyroxine", 2),
        ("query_on_thyroxine", 2),
        ("on_antithyroid_medication", 2),
        ("sick", 2),
        ("pregnant", 2),
        ("thyroid_surgery", 2),
        ("I131_treatment", 2),
        ("query_hypothyroid", 2),
        ("query_hyperthyroid", 2),
        ("lithium", 2),
        ("goitre", 2),
        ("tumor", 2),
        ("hypopituitary", 2),
        ("psych", 2),
        ("TSH", 0),
        ("T3", 0),
        ("TT4", 0),
        ("T4U", 0),
        ("FTI", 0),
    ),
    "Shopper": (
        ("Administrative", 17),
        ("Administrative_Duration", 0),
        ("Informational", 17),
        ("Informational_Duration", 0),
        ("ProductRelated", 0),
        ("ProductRelated_Duration", 0),
        ("BounceRates", 0),
        ("ExitRates", 0),
        ("PageValues", 0),
        ("SpecialDay", 6),
        ("Month", 10),
        ("OperatingSystems", 8),
        ("Browser", 13),
        ("Region", 9),
        ("TrafficType", 17),
        ("VisitorType", 3),
        ("Weekend", 2),
    ),
    "Digit": tuple((f"Attribute{i}", 17) for i in range(1, 65)),
    "GermanCredit": (
        ("checking-status", 4),
        ("duration", 0),
        ("credit-hist", 5),
        ("purpose", 10),
        ("amount", 0),
        ("savings", 5),
        ("employment", 5),
        ("installment-rate", 4),
        ("sex-marital", 4),
        ("other-debtors", 3),
        ("residence-since", 4),
        ("property", 4),
        ("age", 0),
        ("other-installment", 3),
        ("housing", 3),
        ("num-credits", 4),
        ("job", 4),
        ("people-liable", 2),
        ("telephone", 2),
        ("foreign-worker", 2),
    ),
    "Bank": (
        ("age", 0),
        ("job", 12),
        ("marital", 4),
        ("education", 8),
        ("default", 3),
        ("housing", 3),
        ("loan", 3),
        ("contact", 2),
        ("month", 10),
        ("day_of_week", 5),
        ("duration", 0),
        ("campaign", 0),
        ("pdays", 17),
        ("previous", 8),
        ("poutcome", 3),
        ("emp.var.rate", 10),
        ("cons.price.idx", 17),
        ("cons.conf.idx", 17),
        ("euribor3m", 0),
        ("nr.employed", 11),
    ),
    "Spam": tuple((name, 0) for name in HEADERS["Spam"][:-1]),
    "Adult": (
        ("age", 0),
        ("workclass", 9),
        ("fnlwgt", 0),
        ("education", 16),
        ("education-num", 16),
        ("marital-status", 7),
        ("occupation", 15),
        ("relationship", 6),
        ("race", 5),
        ("sex", 2),
        ("capital-gain", 0),
        ("capital-loss", 0),
        ("hours-per-week", 0),
        ("native-country", 17),
    ),
    "SouthGermanCredit": (
        ("status", 4),
        ("duration", 0),
        ("credit_history", 5),
        ("purpose", 10),
        ("amount", 0),
        ("savings", 5),
        ("employment_duration", 5),
        ("installment_rate", 4),
        ("personal_status_sex", 4),
        ("other_debtors", 3),
        ("present_residence", 4),
        ("property", 4),
        ("age", 0),
        ("other_installment_plans", 3),
        ("housing", 3),
        ("number_credits", 4),
        ("job", 4),
        ("people_liable", 2),
        ("telephone", 2),
        ("foreign_worker", 2),
    ),
}
"""The columns without the label: the number of categories, or 0 for a numeric column."""


def generate(name: str, *, rows: int = 600, seed: int = 1) -> Table:
    """A made-up table with the columns of a data set, for tests and for trying out without the files.

    Labels follow the class balance, a third of the attributes shifts with the label; no value is anybody's.
    """
    data_set = known(name)
    generator = np.random.default_rng(seed)
    classes = list(data_set.classes)
    shares = np.array(list(data_set.classes.values())) / data_set.rows
    label = np.concatenate([np.arange(len(classes)), generator.choice(len(classes), rows - len(classes), p=shares)])
    columns: dict[str, NDArray[np.str_]] = {}
    numeric: dict[str, bool] = {}
    for i, (column, kind) in enumerate(SHAPES[data_set.name]):
        effect = label * (1.0 if i % 3 == 0 else 0.0)
        if kind > 0:
            code = (generator.geometric(0.4, rows) - 1 + effect).astype(np.int64) % kind
            columns[column] = np.char.add("v", code.astype(np.str_))
        else:
            values = np.round(generator.gamma(1.0 + effect, 10.0), 1) * (generator.random(rows) > 0.4)
            columns[column] = values.astype(np.str_)
        numeric[column] = kind <= 0
    columns[data_set.label] = np.array(classes)[label]
    numeric[data_set.label] = False
    return Table(data_set=data_set, columns=columns, numeric=numeric, generated=True)
