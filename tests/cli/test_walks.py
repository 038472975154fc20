"""Three walks from a messy file to published tables, by commands alone: what a person types is all that is here."""

from __future__ import annotations

import csv
import datetime
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from simplexdp.schema import Schema

pytestmark = pytest.mark.slow
ROWS = 1500


def typed(simplexdp, line, fails=False):
    """Run a line as it is typed."""
    import shlex

    done = simplexdp(*shlex.split(line))
    assert (done.code != 0) == fails, (line, done.err)
    return done.err if fails else done.out


def short(text: str, lines: int) -> str:
    """A schema that a person writes in so many short lines."""
    written = [line for line in text.splitlines() if line.strip()]
    assert len(written) <= lines
    assert max(map(len, written)) <= 100
    Path("schema.yaml").write_text("\n".join(written) + "\n", encoding="utf-8")
    return text


def hospital() -> None:
    """A semicolon file in Windows-1252 with spaces, several spellings, German dates and decimal commas; 13 columns."""
    dice = random.Random(1)
    with Path("fälle.csv").open("w", encoding="cp1252", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(
            ["Kasse", "Alter", "Geschlecht", "Aufnahme", "Entlassung, geplant", "Diagnose", "Raucher", "Größe",
             "Kosten", "PLZ", "Land", "Station", "Besuche"]
        )  # fmt: skip
        for _ in range(ROWS):
            day = datetime.date(2022, 1, 1) + datetime.timedelta(days=dice.randrange(900))
            writer.writerow(
                [
                    dice.choice(["GKV", "gkv", "PKV"]),
                    dice.choice([dice.randrange(100), "", "unbekannt", 140]),
                    dice.choice(["m", " M", "weiblich", "w", "W ", "?"]),
                    day.strftime("%d.%m.%Y"),
                    dice.choice([day.strftime("%d.%m.%Y"), ""]),
                    dice.choice(["I10", "E11.9", "c50.1 ", "Z00", "keine"]),
                    dice.choice(["ja", "Nein", "J", "", "nie"]),
                    dice.choice(["1,75", "1,80", "172", ""]),
                    dice.choice(["1.250,00 €", "89,90", "12.000", "n/a"]),
                    dice.choice(["01067", "80331", "D-80331", ""]),
                    dice.choice(["DE", "de ", "AT", "Deutschland"]),
                    dice.choice(["Innere", "INNERE ", "Chirurgie", "chir."]),
                    dice.choice([0, 0, 1, 2, 7, 30]),
                ]
            )


def test_a_hospital_with_a_messy_csv_file(tmp_path, monkeypatch, simplexdp):
    monkeypatch.chdir(tmp_path)
    hospital()
    assert "--encoding latin-1" in typed(simplexdp, "schema draft fälle.csv", fails=True)
    draft = typed(simplexdp, "schema draft fälle.csv --encoding cp1252")
    assert '"Entlassung, geplant": TODO' in draft
    assert '"Alter": TODO  # age-5' in draft
    short(
        """
Kasse: {values: [GKV, PKV], transform: upper}
Alter: age-10
Geschlecht: sex
Aufnahme: {template: quarter, transform: dmy}
Entlassung, geplant: {template: weekday, transform: dmy}
Diagnose: icd-10-chapter
Raucher: yes-no
Größe: {edges: [1, 1.6, 1.7, 1.8, 2], outside: cell, missing: cell, transform: {decimal: ","}}
Kosten: {template: money, transform: {decimal: ","}}
PLZ: {template: postcode-1, transform: {map: {D-80331: "80331"}}}
Land: {values: [DE, AT, CH], transform: [trim, upper, {map: {DEUTSCHLAND: DE}}], other: cell}
Station: {values: [innere, chirurgie], transform: [trim, fold, {map: {chir.: chirurgie}}]}
Besuche: {edges: [0, 1, 2, 5, 10, 50], integer: true}
""",
        13,
    )
    assert "13 columns" in typed(simplexdp, "schema check schema.yaml")
    typed(simplexdp, "ledger create ledger.db --epsilon 4 --delta 1e-6")
    typed(simplexdp, "ledger register ledger.db cases fälle.csv --schema schema.yaml --encoding cp1252")
    paid = (
        "fälle.csv --encoding cp1252 --schema schema.yaml --ledger ledger.db --dataset cases --epsilon 1 --delta 1e-7"
    )
    crossed = "--table Geschlecht,Diagnose --table 'Alter,\"Entlassung, geplant\"'"
    typed(simplexdp, f"fit tables {paid} --table all-1-way {crossed} --out tables.json")
    typed(simplexdp, f"fit distribution {paid} --columns 'Entlassung, geplant' --columns Station --out one.json")
    assert "Besuche" in typed(simplexdp, "inspect tables.json")
    typed(simplexdp, "sample tables.json -n 300 --out synthetic.csv --seed 1")
    with Path("synthetic.csv").open(encoding="utf-8") as file:
        visits = [row["Besuche"] for row in csv.DictReader(file)]
    assert all(visit.isdigit() and int(visit) <= 50 for visit in visits)
    assert "cases" in typed(simplexdp, "ledger show ledger.db")


def test_a_statistical_office_with_a_public_census_sample(tmp_path, monkeypatch, simplexdp):
    """Pipe-separated rows with American dates and money, and a schema begun from a public file."""
    monkeypatch.chdir(tmp_path)
    dice = random.Random(2)
    names = ["state", "born", "income", "industry", "employed", "hours"]
    for file, rows in (("public.csv", 400), ("rows.csv", ROWS)):
        lines = ["|".join(names)]
        for _ in range(rows):
            day = datetime.date(1940, 1, 1) + datetime.timedelta(days=dice.randrange(25_000))
            lines.append(
                "|".join(
                    [
                        dice.choice(["CA", "ny", " TX"]),
                        day.strftime("%m/%d/%Y"),
                        dice.choice(["$1,250.00", "$89,000", "", "USD 450"]),
                        dice.choice(["01.1", "45.11", "62", "??"]),
                        dice.choice(["Y", "N", "yes"]),
                        str(dice.randrange(61)),
                    ]
                )
            )
        Path(file).write_text("\n".join(lines) + "\n")
    public = typed(simplexdp, "schema from-public public.csv --bins 6")
    assert Schema.from_yaml(public)["hours"].origin == "public"
    assert "TODO" in typed(simplexdp, "schema draft rows.csv")
    short(
        """
state: region-us
born: {template: year, from: 1940, to: 2010, transform: mdy}
income: money
industry: nace-section
employed: yes-no
hours: {edges: [0, 20, 35, 41, 61], integer: true}
""",
        6,
    )
    typed(simplexdp, "plan --schema schema.yaml --columns state,employed --epsilon 1 --delta 1e-6 --total 1500")
    common = "rows.csv --schema schema.yaml --epsilon 2 --delta 1e-6"
    refused = typed(simplexdp, f"fit tables {common} --table state,borm --out t.json", fails=True)
    assert "Did you mean 'born'?" in refused
    asked = typed(
        simplexdp, f"fit distribution {common} --columns state,born,income,industry --out big.json", fails=True
    )
    assert "--yes" in asked
    typed(simplexdp, f"fit tables {common} --table state,employed --table industry,income --table hours --out t.json")
    assert "PRIVATE" in typed(simplexdp, "inspect t.json")
    typed(simplexdp, "sample t.json -n 200 --out s.parquet --seed 3")
    hours = pyarrow.parquet.read_table("s.parquet")["hours"]
    assert hours.type == pa.int64()
    assert all(0 <= hour <= 61 for hour in hours.to_pylist())


def test_a_registry_with_timestamps_rules_and_new_rows_to_predict(tmp_path, monkeypatch, simplexdp):
    monkeypatch.chdir(tmp_path)
    dice, start = random.Random(3), datetime.datetime(2024, 1, 1)
    rows = {
        "sex": [dice.choice(["F", "M"]) for _ in range(ROWS)],
        "admitted": [start + datetime.timedelta(hours=dice.randrange(8000)) for _ in range(ROWS)],
        "age": [dice.randrange(100) for _ in range(ROWS)],
    }
    rows["pregnant"] = [
        "yes" if sex == "F" and 15 <= age < 50 and dice.random() < 0.4 else "no"
        for sex, age in zip(rows["sex"], rows["age"], strict=True)
    ]
    pyarrow.parquet.write_table(pa.table(rows), "registry.parquet")
    assert "timestamp[us]: month" in typed(simplexdp, "schema draft registry.parquet --out draft.yaml") + Path(
        "draft.yaml"
    ).read_text(encoding="utf-8")
    short(
        """
columns:
  sex: {template: sex, other: refuse, missing: refuse}
  admitted: {edges: [2024-01-01, 2024-04-01, 2024-07-01, 2024-10-01, 2025-01-01]}
  age: {edges: [0, 15, 50, 120], integer: true}
  pregnant: {values: ["no", "yes"]}
never:
  - {sex: male, pregnant: "yes"}
  - {age: {below: 15}, pregnant: "yes"}
  - {age: {from: 50}, pregnant: "yes"}
""",
        9,
    )
    checked = typed(simplexdp, "schema check schema.yaml")
    assert "Never sex: male, pregnant: yes: 1 cells" in checked
    common = "registry.parquet --schema schema.yaml --epsilon 2 --delta 1e-6"
    typed(simplexdp, f"fit nb {common} --target pregnant --out nb.json")
    typed(simplexdp, f"fit tables {common} --table all-2-way --out tables.json")
    Path("new.csv").write_text("sex;admitted;age\n m;2024-02-01 10:00:00;30\nweiblich;2024-05-01;31\nf;2024-05-01;8\n")
    typed(simplexdp, "predict nb.json new.csv --out predicted.csv")
    with Path("predicted.csv").open(encoding="utf-8") as file:
        found = [float(row["probability_yes"]) for row in csv.DictReader(file)]
    assert found[0] == found[2] == 0 < found[1]
    for model in ("nb", "tables"):
        typed(simplexdp, f"sample {model}.json -n 500 --out {model}.parquet --seed 4")
        table = pyarrow.parquet.read_table(f"{model}.parquet").to_pylist()
        assert not [
            row for row in table if row["pregnant"] == "yes" and (row["sex"] == "male" or not 15 <= row["age"] < 50)
        ]
        assert all(row["admitted"].year in (2024, 2025) for row in table)
