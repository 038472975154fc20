"""Settings for all tests; this file also puts the folder on the path, so that tests below can import `reference`."""

from __future__ import annotations

import os

# Many small matrix products on few cores: threads inside BLAS only get in each other's way.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# What is printed is the same for every terminal, and where there is none.
os.environ["COLUMNS"] = "80"
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

from hypothesis import settings  # noqa: E402  after the variables above, because it may load NumPy

# A busy machine is not a failure. Where CI is set the examples are always the same, so that a red run can be repeated.
settings.register_profile("here", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.register_profile("quick", settings.get_profile("here"), max_examples=20)  # `make quick` names it
settings.load_profile("here")
