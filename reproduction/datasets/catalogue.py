"""What is known in advance about each data set: Table 1 of the paper, the UCI number, the checksums.

All are from the UCI Machine Learning Repository (archive.ics.uci.edu/dataset/<id>) under CC BY 4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from simplexdp.errors import InvalidArgument


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set.

    Args:
        name: as in Table 1 of the paper.
        title: as in the repository, with the reference.
        uci: its number in the UCI repository.
        rows: how many records.
        attributes: how many columns without the label, in the file.
        label: the last column.
        classes: how often each label occurs.
        positive: the label that Table 1 counts as positive, if it has two.
        sha256: of the file as `name.csv.gz`.
        sha256_text: of the same text uncompressed, for files that were compressed otherwise.
        unused: columns that Table 1 does not count.
    """

    name: str
    title: str
    uci: int
    rows: int
    attributes: int
    label: str
    classes: Mapping[str, int] = field(hash=False)
    positive: str | None = None
    sha256: str
    sha256_text: str
    unused: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The file's name."""
        return f"{self.name.lower()}.csv.gz"

    @property
    def used_attributes(self) -> int:
        """The number of attributes in Table 1."""
        return self.attributes - len(self.unused)

    @property
    def positive_share(self) -> float | None:
        """The share of the positive class."""
        return None if self.positive is None else self.classes[self.positive] / self.rows


_KNOWN = (
    DataSet(
        name="CreditCard",
        title="Default of credit card clients (Yeh & Lien 2009)",
        uci=350,
        rows=30000,
        attributes=23,
        label="default payment next month",
        classes={"0": 23364, "1": 6636},
        positive="1",
        sha256="ec7accba7aa5622621b945da8da8a4125920ab7bb2116c1c5f9c07b216644b41",
        sha256_text="eeaaa5addd59a2c56e82cbfca996f37ad98714c0237f1a3cbc8d7e973102966d",
    ),
    DataSet(
        name="Thyroid",
        title="Thyroid disease, ann-train and ann-test (Quinlan 1986)",
        uci=102,
        rows=7200,
        attributes=21,
        label="class",
        classes={"3": 6666, "2": 368, "1": 166},
        sha256="62769dc46b071ca74b00bc72047246810a8049d84034c4e66d4c8ef66c839096",
        sha256_text="4a78a7440b1d67d653c7a106f38652ec37b4c830a3fc079590121ce03b138617",
    ),
    DataSet(
        name="Shopper",
        title="Online shoppers purchasing intention (Sakar & Kastro 2018)",
        uci=468,
        rows=12330,
        attributes=17,
        label="Revenue",
        classes={"FALSE": 10422, "TRUE": 1908},
        positive="TRUE",
        sha256="3a0e44d674f28122f2b68681a1ba970218b3f8a5c1cee5c282a029232b8cbd65",
        sha256_text="d8e130ba51532985f93281a73ce299e6ce150cb915769a7962a11e595eadd6a1",
    ),
    DataSet(
        name="Digit",
        title="Optical recognition of handwritten digits (Alpaydin & Kaynak 1998)",
        uci=80,
        rows=5620,
        attributes=64,
        label="class",
        classes={
            "0": 554,
            "1": 571,
            "2": 557,
            "3": 572,
            "4": 568,
            "5": 558,
            "6": 558,
            "7": 566,
            "8": 554,
            "9": 562,
        },
        sha256="a3b1e19d713160c62a0ceaf8780c3f1a9448e378fe5ee419202928ab8bf2063d",
        sha256_text="1afed2c27eb80eb87992f5cb6bc1967f1ceca0a83b037fd3589a2eb7f962f059",
    ),
    DataSet(
        name="GermanCredit",
        title="Statlog German credit data (Hofmann 1994)",
        uci=144,
        rows=1000,
        attributes=20,
        label="class",
        classes={"1": 700, "2": 300},
        positive="2",
        sha256="74aad432314439d9287ab09cfa94844491f430d102375cdb229bfb19f7bb41a2",
        sha256_text="ac447c23dac2b59628237982556251b229888c20d4f5486d78cc39dee10d5f27",
    ),
    DataSet(
        name="Bank",
        title="Bank marketing, bank-additional-full (Moro, Cortez & Rita 2014)",
        uci=222,
        rows=41188,
        attributes=20,
        label="y",
        classes={"no": 36548, "yes": 4640},
        positive="yes",
        sha256="db6c49717dc7a3598bc62bda773b74b52293bd5f288859538a90c162b76b2763",
        sha256_text="bb45add91d4e02870fcde28ee4f913b78268a5aa6051e8fbe2c3e16010404355",
    ),
    DataSet(
        name="Spam",
        title="Spambase (Hopkins, Reeber, Forman & Suermondt 1999)",
        uci=94,
        rows=4601,
        attributes=57,
        label="class",
        classes={"0": 2788, "1": 1813},
        positive="1",
        sha256="6aa0f5465a674cd0b5c41d2a4a8f238194be640113ad015fed9336118d055809",
        sha256_text="f61035a509a20e4c94a63d2db2c86fe660ed443dbc16aadf76e7d8abb37725c0",
    ),
    DataSet(
        name="Adult",
        title="Adult, adult.data and adult.test (Becker & Kohavi 1996)",
        uci=2,
        rows=48842,
        attributes=14,
        label="income",
        classes={"<=50K": 37155, ">50K": 11687},
        positive=">50K",
        sha256="0cf7c0c1f5cbb0dea76ee32216c0aa56bb63b97684f1bbe2ea9cede1159aa928",
        sha256_text="6f8f2babc5ee744afd03f6d978d8d6b3e3b0aae240d931c4976a9cce7af0d347",
        unused=("fnlwgt",),
    ),
    DataSet(
        name="SouthGermanCredit",
        title="South German credit (Grömping 2019)",
        uci=522,
        rows=1000,
        attributes=20,
        label="credit_risk",
        classes={"1": 700, "0": 300},
        positive="0",
        sha256="1e175087c8addf94f9ac6fc93693d4c7466ac469b69172b3cd047d7f07edac26",
        sha256_text="a4e28e9ca9e250ca619b052f73bf63c1f4ab9c8e883a2b944f68251ed55a02f3",
    ),
)
CATALOGUE: Mapping[str, DataSet] = MappingProxyType({each.name: each for each in _KNOWN})
"""By the name of Table 1; `SouthGermanCredit` is the corrected version of `GermanCredit`."""
PAPER_ORDER = ("CreditCard", "Thyroid", "Shopper", "Digit", "GermanCredit", "Bank", "Spam", "Adult")
"""The eight of Table 1."""


def known(name: str) -> DataSet:
    """The data set of this name, in any case."""
    for each in _KNOWN:
        if each.name.lower() == name.lower():
            return each
    raise InvalidArgument("name", "one of " + ", ".join(CATALOGUE), got=name)
