"""The one way in which calls are timed."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(call: Callable[[], object], repeats: int = 3, *, clock: Callable[[], float] = time.process_time) -> float:
    """The least time of some calls, which is the one that the machine disturbed least; CPU time by default."""
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times)
