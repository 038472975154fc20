"""Write constraints-hashed.txt: every pinned package with the SHA-256 of the file that pip takes for it here.

`make hashes` runs it. pip resolves constraints.txt without installing anything and reports what it would take; only
name, version and hash are kept, so the list does not depend on where the files come from. A hash is that of one file:
the list is for the platform and the Python that it names in its first lines.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Resolve, read the report, write the list."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += ["--disable-pip-version-check", "--report", str(report)]
        subprocess.run([*command, "--requirement", str(ROOT / "constraints.txt")], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))
    version = ".".join(platform.python_version_tuple()[:2])
    lines = [
        f"# {platform.system()} {platform.machine()}, Python {version}. Written by `make hashes` from constraints.txt.",
        "# python -m pip install --require-hashes --requirement constraints-hashed.txt",
        "# python -m pip install --no-deps --editable .",
    ]
    for item in sorted(found["install"], key=lambda item: str(item["metadata"]["name"]).lower()):
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{item['metadata']['name']}=={item['metadata']['version']} --hash=sha256:{digest}")
    (ROOT / "constraints-hashed.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
