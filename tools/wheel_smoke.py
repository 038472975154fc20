"""What `make wheel` runs in an environment that has the wheel and its dependencies only: one of each main thing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

import simplexdp
from simplexdp import BayesianNetwork, Budget, Schema, release

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def main() -> None:
    """Raise where something is missing."""
    package = Path(simplexdp.__file__).parent
    assert package.is_relative_to(sys.prefix), f"the package comes from {package}"
    assert (package / "py.typed").exists()
    assert importlib.util.find_spec("tests") is None
    for extra in ("sklearn", "pgmpy", "matplotlib", "pytest"):
        assert importlib.util.find_spec(extra) is None, f"{extra} is there: nothing shows that it is not needed"

    released = release([119, 74, 618, 272, 13, 187], budget=BUDGET)
    assert abs(float(released.probabilities.sum()) - 1) < 1e-9
    assert released.private
    assert "PRIVATE" in str(released.certificate())

    draws = np.random.default_rng(0)
    rows = pa.table({name: draws.choice(["no", "yes"], 500).tolist() for name in ("smoker", "ill")})
    network = BayesianNetwork({"ill": ["smoker"]}, Schema.of(smoker=["no", "yes"], ill=["no", "yes"]), budget=BUDGET)
    sample = network.fit(rows).sample(20)
    assert sample.num_rows == 20

    script = Path(sys.executable).with_name("simplexdp")
    assert "fit" in subprocess.run([script, "--help"], capture_output=True, text=True, check=True).stdout
    pc.write_csv(rows, "rows.csv")
    columns = [f"  - {{name: {name}, values: ['no', 'yes']}}" for name in rows.column_names]
    Path("schema.yaml").write_text("\n".join(["columns:", *columns, ""]), encoding="utf-8")
    shared = ["--schema", "schema.yaml", "--epsilon", "1", "--delta", "1e-6", "--out", "model.json"]
    subprocess.run([script, "fit", "nb", "rows.csv", "--target", "ill", *shared], check=True)
    subprocess.run([script, "inspect", "model.json"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([script, "demo", "--histogram-only"], check=True, stdout=subprocess.DEVNULL)

    said = ""
    try:
        _ = simplexdp.NaiveBayes
    except simplexdp.errors.MissingExtra as error:
        said = str(error)
    assert "simplexdp[learn]" in said, "what needs scikit-learn does not say which extra has it"
    print(f"simplexdp {simplexdp.__version__} works on its own")


if __name__ == "__main__":
    main()
