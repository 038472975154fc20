"""Settings for all tests."""

from __future__ import annotations

import os

# Many small matrix products on few cores: threads inside BLAS only get in each other's way.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
