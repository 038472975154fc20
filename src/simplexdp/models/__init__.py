"""Models built from releases only: nothing here reads a table or draws a random number."""

from .certificate import Certificate
from .guarantee import Guarantee
from .release import Release

__all__ = ["Certificate", "Guarantee", "Release"]
