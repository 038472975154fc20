"""Settings for all tests; this file also puts the folder on the path, so that tests below can import `reference`."""

from __future__ import annotations

import os

# Many small matrix products on few cores: threads inside BLAS only get in each other's way.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hypothesis import settings  # noqa: E402  after the variables above, because it may load NumPy

# A busy machine is not a failure. Where CI is set the examples are always the same, so that a red run can be repeated.
settings.register_profile("here", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("here")
