"""How valid inputs are made hostile: other values in JSON, pieces of syntax anywhere."""

from __future__ import annotations

import json
import random
from typing import Any

HOSTILE: tuple[object, ...] = (
    None, True, 0, -1, 1, 2**63, 10**400, 0.5, 1e308, 5e-324, float("nan"), float("inf"), "", "x", "nan", "\x00",
    "\ud800", [], {}, [[]], [None], "no", "laplace", "dirichlet", "none", "add-remove", "person", "posterior-mean",
    "raw", 3, 7, [1, 2], {"a": 1}, [[[[[[[[[[[[1]]]]]]]]]]]], "x" * 3000,
)  # fmt: skip
PIECES = (
    b"", b"\x00", b"\xff", b"-", b"0", b"9" * 25, b"9" * 5000, b"e308", b"1e999", b"nan", b"NaN", b"Infinity",
    b"-Infinity", b"[", b"]", b"{", b"}", b'"', b"'", b":", b",", b"\n", b"\r", b"\t", b"  ", b"&a ", b"*a",
    b"!!python/object:os.system ", b"!!python/object/apply:os.system ['true']", b"<<: ", b"null", b"true", b"\xc3\x28",
    b"[" * 2000, b'{"a":' * 1500, b"#", b"---\n", b"\x1b[2J", b"../", b"0x", b"0o7", b"1_0",
    b"\\u0000", b"\xef\xbb\xbf",
)  # fmt: skip


def edit(data: bytes, where: float, length: int, piece: bytes) -> bytes:
    """Replace `length` bytes at a relative place by a piece."""
    at = int(where * (len(data) + 1))
    return data[:at] + piece + data[at + length :]


def swap(data: bytes, where: float, value: object, *, remove: bool = False) -> bytes:
    """Put a hostile value in the place of one value somewhere in a JSON document, or take it away."""
    body = json.loads(data)
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [body]
    while waiting:
        holder = waiting.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            places.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    if not places:
        return data
    holder, key = places[min(int(where * len(places)), len(places) - 1)]
    if remove:
        del holder[key]
    else:
        holder[key] = value
    return json.dumps(body).encode()


def change(target: str, data: bytes, rng: random.Random) -> bytes:
    """One change of a random kind."""
    if target.endswith(("_body", "_json", "_chain")) and rng.random() < 0.7:
        try:
            return swap(data, rng.random(), rng.choice(HOSTILE), remove=rng.random() < 0.2)
        except (ValueError, TypeError, RecursionError):
            pass
    if target == "rows":  # the bytes are dice
        return rng.randbytes(8)
    if target in ("command", "counts"):
        return edit(data, rng.random(), rng.randint(0, 2), rng.randbytes(rng.randint(0, 2)))
    piece = rng.choice(PIECES) if rng.random() < 0.7 else rng.randbytes(rng.randint(1, 4))
    return edit(data, rng.random(), rng.randint(0, 6), piece)
