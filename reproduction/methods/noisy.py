"""Laplace noise on the counts, and what others do with it: a posterior draw, a posterior mean, a floor.

Foulds, Geumlek, Welling & Chaudhuri (2016), Bernstein & Sheldon (2018), Ye, Feldman & Talwar (2025, arXiv 2505.23620).
"""

from __future__ import annotations

import numpy as np

from simplexdp.budget import Budget
from simplexdp.sampling import SeededEntropy

from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .exact import noisy_counts
from .paper import calibrated_laplace

BURN_IN = 500
KEPT = 100
_TINY = 1e-9


class GibbsSampler:
    """Draws of θ given noisy counts y of shape (repeats, cells), as Bernstein & Sheldon do.

    Model, for each table of d cells with public total N:
        θ ~ Dirichlet(a),   n | θ ~ N(Nθ, N(diag θ − θθᵀ)),   y = n + Laplace(b).
    The Laplace law is a scale mixture of normals, so the sampler alternates
        v | n, y     1/v_i ~ inverse Gaussian(1/(b |y_i − n_i|), 1/b²)
        n | θ, v, y  independent normals, conditioned on their sum N
        θ | n        Dirichlet(a + n).
    """

    def __init__(self, tables: Tables, noisy: FloatArray, scale: float, prior: float = 1.0) -> None:
        self._tables, self._y, self._b, self._prior = tables, noisy, scale, prior

    def start(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Counts clipped and scaled to the total, and a first θ."""
        counts = self._tables.normalise_tables(np.maximum(self._y, 0.5)) * self._tables.total
        return counts, self.draw_probabilities(counts, generator)

    def sweep(
        self, counts: FloatArray, theta: FloatArray, generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """One round: noise variances, counts, probabilities."""
        precision = self.draw_precisions(counts, generator)
        counts = self.draw_counts(theta, precision, generator)
        return counts, self.draw_probabilities(counts, generator)

    def draw_precisions(self, counts: FloatArray, generator: np.random.Generator) -> FloatArray:
        """1/v | n, y."""
        distance = np.maximum(np.abs(self._y - counts), _TINY * self._b)
        drawn: FloatArray = generator.wald(1 / (self._b * distance), 1 / self._b**2)
        return np.clip(drawn, 1e-12 / self._b**2, 1e12 / self._b**2)

    def draw_counts(self, theta: FloatArray, precision: FloatArray, generator: np.random.Generator) -> FloatArray:
        """n | θ, v, y: the multinomial is independent N(Nθ, Nθ) given the sum; so is its posterior."""
        mean = np.maximum(self._tables.total * theta, _TINY)
        variance = 1 / (1 / mean + precision)
        free = variance * (1 + self._y * precision) + np.sqrt(variance) * generator.standard_normal(theta.shape)
        missing = self._tables.total - self._tables.table_sums(free)
        weight = self._tables.normalise_tables(variance)
        return free + weight * np.repeat(missing, self._tables.table_sizes, axis=-1)

    def draw_probabilities(self, counts: FloatArray, generator: np.random.Generator) -> FloatArray:
        """θ | n."""
        gammas = generator.standard_gamma(self._prior + np.maximum(counts, 0.0))
        return self._tables.normalise_tables(np.maximum(gammas, 1e-300))


class BernsteinSheldon(Method):
    """The posterior mean of θ given counts with Laplace noise of exact accounting."""

    name = "bernstein-sheldon"
    label = "Bernstein & Sheldon, Gibbs"
    heavy = True

    def __init__(self, burn_in: int = BURN_IN, kept: int = KEPT) -> None:
        self._burn_in, self._kept = burn_in, kept

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """All repeats and tables in one chain of vectors."""
        mechanism = calibrated_laplace(budget, tables.shares)
        noisy = noisy_counts(mechanism, tables, entropy, repeats)
        sampler, generator = GibbsSampler(tables, noisy, mechanism.scale), entropy.generator()
        counts, theta = sampler.start(generator)
        mean = np.zeros_like(theta)
        for sweep in range(self._burn_in + self._kept):
            counts, theta = sampler.sweep(counts, theta, generator)
            if sweep >= self._burn_in:
                mean += theta
        return tables.normalise(mean)


class Foulds(Method):
    """θ ~ Dirichlet(max(f + Laplace, 0) + 1): private through the noise, the draw is post-processing."""

    name = "foulds"
    label = "Foulds et al."

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """One noisy table and one posterior draw for each repeat."""
        noisy = noisy_counts(calibrated_laplace(budget, tables.shares), tables, entropy, repeats)
        gammas = entropy.generator().standard_gamma(np.maximum(noisy, 0.0) + 1.0)
        return tables.normalise(np.maximum(gammas, 1e-300))


class YeFeldmanTalwar(Method):
    """q ∝ max(f + Laplace(b), b): a count of one table is (1/b)-DP, so the floor is 1/ε of a count."""

    name = "ye-feldman-talwar"
    label = "Ye, Feldman & Talwar"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """One noisy table for each repeat."""
        mechanism = calibrated_laplace(budget, tables.shares)
        noisy = noisy_counts(mechanism, tables, entropy, repeats)
        return tables.normalise(np.maximum(noisy, mechanism.scale))
