"""Real engines for the contract tests: a PostgreSQL server and a Spark session, started on demand."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest


def _postgres_binaries() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


@pytest.fixture(scope="session")
def postgres():
    """The URI of a PostgreSQL server of our own, reachable through a socket in a temporary folder only."""
    binaries = _postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine (initdb not found)")
    home = Path(tempfile.mkdtemp(prefix="sdp-pg-", dir="/tmp"))  # socket paths must be short
    user = getpass.getuser()
    become: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root and there is no user postgres")
        os.chown(home, owner.pw_uid, owner.pw_gid)
        user, become = "postgres", ["runuser", "-u", "postgres", "--"]

    def run(name: str, *arguments: str) -> None:
        command = [*become, str(binaries / name), "-D", str(home / "data"), *arguments]
        subprocess.run(command, check=True, cwd=home, stdout=subprocess.DEVNULL, timeout=60)

    run("initdb", "-A", "trust", "-U", user, "--no-sync", "-E", "UTF8", "--locale=C")
    run("pg_ctl", "-w", "-l", str(home / "log"), "-o", f"-c listen_addresses='' -k {home} -F", "start")
    try:
        yield f"postgresql://{user}@/postgres?host={home}"
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def spark():
    """A local Spark session."""
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine")
    pyspark_sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark warns about newer pandas and about its own sockets
        session = (
            pyspark_sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # short jobs: compile little
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
