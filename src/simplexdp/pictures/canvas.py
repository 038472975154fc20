"""An SVG that takes the colours of the page it stands on: lines and text in its text colour, marks in one tone."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

WIDTH = 360.0
"""Units of a picture that fits a telephone; pages show it up to 1.4 times as large."""
SIZE = 12.0
"""Of text, in units."""
LINE = 15.0
"""From one line of text to the next."""
TONES = ("#3b82c4", "#d9722e", "#6f9a3a", "#9a6fc0", "#8a8a8a")
"""Each has a contrast of at least 3 with white and with the dark page."""

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]{}/ "), frozenset("mwMW@%—…±")
_LETTER, _CAPITAL, _BROAD, _SLIM = 0.62, 0.72, 1.0, 0.4
"""Widths of letters by their height: those of a wide sans-serif, so that what fits by them fits anywhere."""


def width_of(text: str, size: float = SIZE) -> float:
    """About how wide a text is, rather too wide than too narrow.

    >>> width_of("WWWW") > width_of("nnnn") > width_of("ill.")
    True
    """
    return size * sum(map(_width, text))


def _width(letter: str) -> float:
    if letter in _NARROW:
        return _SLIM
    if letter in _WIDE or ord(letter) > 0x2E80:
        return _BROAD
    return _CAPITAL if letter.isupper() else _LETTER


def wrapped(text: str, width: float, size: float = SIZE) -> list[str]:
    """The text in lines of this width, cut between words where that goes, and nothing left out.

    >>> wrapped("widowed or divorced", 80)
    ['widowed or', 'divorced']
    """
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if width_of(longer, size) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        line = ""
        for letter in word:
            if line and width_of(line + letter, size) > width:
                lines.append(line)
                line = ""
            line += letter
    return [*lines, line]


def short(value: float) -> str:
    """A number with four digits at most, as short as it can be written.

    >>> short(2.7119999999999997), short(0.25), short(12345.6), short(1e-7)
    ('2.712', '0.25', '12,346', '1e-07')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ticks(top: float, most: int = 4) -> list[float]:
    """Round numbers from 0 to `top`.

    >>> [short(each) for each in ticks(0.62)]
    ['0', '0.2', '0.4', '0.6']
    """
    if not top > 0 or not math.isfinite(top):
        return [0.0]
    raw = top / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(k * power for k in (1, 2, 2.5, 5, 10) if k * power >= raw * (1 - 1e-9))
    return [i * step for i in range(int(top / step * (1 + 1e-9)) + 1)]


class Canvas:
    """Marks and texts, collected from the top to the bottom."""

    def __init__(self, width: float = WIDTH) -> None:
        self.width = width
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        side: str = "start",
        size: float = SIZE,
        bold: bool = False,
        faint: bool = False,
        turned: bool = False,
    ) -> None:
        """One line with its baseline at y; `turned` reads from below."""
        more = ' font-weight="600"' if bold else ""
        more += ' opacity=".75"' if faint else ""
        more += f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
        where = "" if side == "start" else f' text-anchor="{side}"'
        height = "" if size == SIZE else f' font-size="{_n(size)}"'
        self._parts.append(f'<text x="{_n(x)}" y="{_n(y)}"{where}{height}{more}>{html.escape(text)}</text>')

    def lines(self, x: float, y: float, texts: Sequence[str], *, side: str = "start", bold: bool = False) -> None:
        """Several lines, the first with its baseline at y."""
        for i, text in enumerate(texts):
            self.text(x, y + i * LINE, text, side=side, bold=bold)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        tone: str = TONES[0],
        opacity: float = 1.0,
        round_: float = 0.0,
        framed: bool = False,
    ) -> None:
        """A filled box; `framed` has an outline in the colour of the text."""
        more = f' rx="{_n(round_)}"' if round_ else ""
        more += f' fill-opacity="{_n(opacity)}"' if opacity < 1 else ""
        more += ' stroke="currentColor" stroke-opacity=".55"' if framed else ""
        shape = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0.0))}" height="{_n(height)}"'
        self._parts.append(f'<rect {shape} fill="{tone}"{more}/>')

    def path(
        self, points: str, *, tone: str = "currentColor", width: float = 1.0, opacity: float = 1.0, dashed: bool = False
    ) -> None:
        """A line by its SVG path."""
        more = f' stroke-opacity="{_n(opacity)}"' if opacity < 1 else ""
        more += ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(f'<path d="{points}" fill="none" stroke="{tone}" stroke-width="{_n(width)}"{more}/>')

    def head(self, points: Sequence[tuple[float, float]]) -> None:
        """A filled shape in the colour of the text, such as the head of an arrow."""
        corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._parts.append(f'<polygon points="{corners}" fill="currentColor" fill-opacity=".7"/>')

    def dot(self, x: float, y: float, *, tone: str) -> None:
        """A small disc."""
        self._parts.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="3" fill="{tone}"/>')

    def drawn(self, height: float, words: str) -> str:
        """The whole picture, with what it shows in words for those who cannot see it."""
        body = "".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(self.width)} {_n(height)}" role="img" '
            f'aria-label="{html.escape(words, quote=True)}" font-size="{_n(SIZE)}" fill="currentColor" '
            f"font-family=\"system-ui, 'Segoe UI', Roboto, Arial, sans-serif\" "
            f'style="width:100%;min-width:{_n(self.width * 0.9)}px;max-width:{_n(self.width * 1.4)}px;height:auto;'
            f'display:block">{body}</svg>'
        )


def at(x: float, y: float) -> str:
    """A point of a path."""
    return f"{_n(x)} {_n(y)}"


def _n(value: float) -> str:
    """A coordinate: two places are finer than any screen."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
