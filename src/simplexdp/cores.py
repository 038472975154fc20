"""How many threads may work, and work that is spread over them while its results keep their order.

NumPy, Arrow and pyarrow's readers let go of the interpreter while they work on arrays, so that threads are enough and
nothing private has to leave the process.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

from .budget import check_whole

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2
"""Pieces of work per thread that are under way or done and not yet asked for: what bounds the memory."""
_GROUP = Path("/sys/fs/cgroup")


def threads_from(threads: int | None) -> int:
    """What a `threads=` argument means: by default as many as the machine grants this process.

    >>> threads_from(3)
    3
    """
    return granted() if threads is None else check_whole("threads", threads)


@cache
def granted() -> int:
    """The cores that this process may run on, and not more than the quota of its control group."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    quota = _quota(_GROUP)
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def _quota(group: Path) -> float | None:
    """Cores by the quota of a control group, of version 2 or 1; None if there is none."""
    try:
        limit, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (group / "cpu/cpu.cfs_quota_us").read_text()
            period = (group / "cpu/cpu.cfs_period_us").read_text()
        except OSError:
            return None
    try:
        return int(limit) / int(period) if int(limit) > 0 and int(period) > 0 else None
    except ValueError:  # "max"
        return None


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Generator[Result, None, None]:
    """`map(work, items)` in several threads: the same results in the same order, and the same first failure.

    Items are asked for in this thread, a few ahead. What fails first in the order of the items is raised, whichever
    thread is faster, and nothing is under way any more when the iterator ends, however it ends.

    >>> list(in_order(abs, [-3, 2, -1], 2))
    [3, 2, 1]
    """
    if threads == 1:
        yield from map(work, items)
    else:
        yield from _spread(work, iter(items), threads)


def ahead(items: Iterable[Item], threads: int) -> Generator[Item, None, None]:
    """The same items, made by a thread of their own while this one works on those before: a few at most.

    >>> list(ahead("abc", 2))
    ['a', 'b', 'c']
    """
    if threads == 1:
        yield from items
        return
    from concurrent.futures import ThreadPoolExecutor

    source, end = iter(items), object()
    with ThreadPoolExecutor(1, thread_name_prefix="simplexdp") as pool:
        waiting = deque(pool.submit(next, source, end) for _ in range(AHEAD))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(pool.submit(next, source, end))
                yield cast(Item, item)
        finally:
            pool.shutdown(cancel_futures=True)


def _spread(work: Callable[[Item], Result], items: Iterator[Item], threads: int) -> Generator[Result, None, None]:
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: deque[Future[Result]] = deque()
    alone: list[Item] = []  # one item alone is not worth a thread
    pool: ThreadPoolExecutor | None = None
    failure: Exception | None = None
    try:
        while True:
            try:
                item = next(items)
            except StopIteration:
                break
            except Exception as error:  # what came before may have failed too, and is told first
                failure = error
                break
            if pool is None and not alone:
                alone.append(item)
                continue
            if pool is None:
                pool = ThreadPoolExecutor(threads, thread_name_prefix="simplexdp")
                waiting.append(pool.submit(work, alone.pop()))
            waiting.append(pool.submit(work, item))
            while waiting and (len(waiting) > AHEAD * threads or waiting[0].done()):
                yield waiting.popleft().result()
        while alone:
            yield work(alone.pop())
        while waiting:
            yield waiting.popleft().result()
    finally:
        waiting.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # it holds this frame
