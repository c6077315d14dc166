"""The ends of a Hessian's spectrum, by Lanczos: scipy's eigsh on products of the Hessian with vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapo.diagnostics.second_order import Hessian
from gapo.errors import InputError


@dataclass(frozen=True)
class Spectrum:
    """The greatest eigenvalues, falling, and the least ones, rising."""

    top: NDArray[np.float64]
    bottom: NDArray[np.float64]
    residual: float  # the greatest ||H q - lambda q|| of them all
    products: int  # of the Hessian with a vector

    @property
    def lambda_max(self) -> float:
        """Sharpness."""
        return float(self.top[0])

    @property
    def lambda_min(self) -> float:
        return float(self.bottom[0])

    @property
    def top_mean(self) -> float:
        """The paper's "top-5 average"."""
        return float(self.top.mean())


def extreme_eigenvalues(
    hessian: Hessian, *, top: int = 5, bottom: int = 1, tolerance: float = 1e-3, seed: int = 0
) -> Spectrum:
    """Lanczos from a random start, each end on its own, until eigenvalues are right to `tolerance` of their size.

    An end that does not settle raises scipy's ArpackNoConvergence.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    if not 0 < top < hessian.size - 1 or not 0 < bottom < hessian.size - 1:
        raise InputError(f"asked for {top} and {bottom} eigenvalues of a matrix with {hessian.size}; ask for fewer")
    before = hessian.products
    start = np.random.default_rng(seed).standard_normal(hessian.size)
    bent = hessian.times_array(start)
    if not np.isfinite(bent).all():
        raise InputError("the Hessian has entries that are not finite; look at the losses of the batch")
    if not bent.any():
        return Spectrum(np.zeros(top), np.zeros(bottom), 0.0, 1)
    operator = LinearOperator((hessian.size,) * 2, matvec=hessian.times_array, dtype=np.float64)
    found, residual = {}, 0.0
    for end, count in (("LA", top), ("SA", bottom)):
        values, vectors = eigsh(operator, k=count, which=end, tol=tolerance, v0=start)
        off = [hessian.times_array(q) - value * q for value, q in zip(values, vectors.T, strict=True)]
        residual = max(residual, *(float(np.linalg.norm(o)) for o in off))
        found[end] = np.sort(values)
    return Spectrum(found["LA"][::-1].copy(), found["SA"], residual, hessian.products - before)
