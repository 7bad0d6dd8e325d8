"""Kernel functions on given examples, normalised in feature space, each stored in its cheapest form.

A normalisation of a matrix of kernel values needs statistics of its rows and of its columns. The statistics
of the training examples are stored. The statistics of new points are computed from their kernel values with
the examples and with themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.bank import Bank, BankParts
from cutplane.kernels.base import Kernel, select_columns
from cutplane.kernels.matrices import (
    FactoredKernels,
    KeptPanels,
    SymmetricMatrices,
    panel_entries,
    panel_ranges,
)
from cutplane.pieces.parameters import read_only, set_fields
from cutplane.pieces.validation import Array, as_scalar
from cutplane.risks.matrix import TILE, as_matrix
from cutplane.runtime.threads import run_chunks

_ROUNDING = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 1e-7}
"""Fraction of each K_ii that a factor may omit, because rounding to this type causes errors of this size."""
_KEPT_COLUMNS = 64
"""Number of selections of columns that are cached while kernels are computed, because kernels of one feature
follow each other."""
_FIRST_LOOK = 16
"""Number of columns after which the rank is estimated, because fewer residuals show no trend."""
_NEGLIGIBLE = 1e-13
"""Share of k(x, x) below which diagonal entries count as zero after centring, because rounding errors are as
large."""

NAMES = ("trace", "diagonal", "center")


@dataclass(frozen=True, eq=False, repr=False)
class KernelBank(Bank):
    """Kernel matrices K_k = (k_k(x_i, x_j))_ij on the rows x_i of one data matrix.

    Kernels are computed when they are first needed, and stored in the cheapest form: as a factor F with F F'
    = K if the kernel has a feature map with few columns; as a factor from a pivoted Cholesky decomposition,
    which does not compute all of K, if the numerical rank is low; else as the matrix K.

    Parameters
    ----------
    kernels : sequence of Kernel
        At least one.
    X : ndarray or sparse matrix of shape (m, n)
        One row per example; float32, float64, CSR and CSC are not copied.
    normalize : {"trace", "diagonal", "center"} or tuple of these, optional
        By default the kernels are not normalised. "trace" divides K by its mean diagonal entry, "diagonal"
        divides each K_ij by sqrt(K_ii K_jj), and "center" subtracts the mean of the examples in feature
        space. A tuple applies several of these in order. New points are normalised with the statistics of the
        examples. A kernel that is zero, or becomes zero by centring, stays zero.
    dtype : {float64, float32}, default float64
        The type in which kernels are stored; sums are always in float64. float32 takes half the memory and
        keeps 7 digits.
    memory : float, default 2^30
        Bytes for kernel matrices without a factor. Matrices that exceed it are computed again in every pass,
        in blocks of rows.
    feature_names : sequence of str of length n, optional
        Used in the names of the kernels; by default the columns of a DataFrame, or numbers.

    Attributes
    ----------
    n_kernels, n_samples : int
    names : tuple of str

    Raises
    ------
    InvalidInputError
        If there are no kernels, a kernel needs a column that X lacks, a kernel needs dense data and X is
        sparse, an entry is not finite, or an argument is out of range; in the first pass, if values of a
        kernel overflow.

    Notes
    -----
    A kernel with a factor of r columns takes 8 m r bytes, where r is at most m / 4 (16 for few examples). A
    kernel without a factor takes 4 m (m + h) bytes: its lower triangle, in panels of h = 65536 / m rows (at
    most m). float32 halves both. The normalisations "diagonal" and "center" take 8 m bytes more. A pickle of
    a bank contains the kernels and X; the matrices are computed again.

    If F is the factor of a pivoted Cholesky decomposition, K - F F' is positive semidefinite and its diagonal
    entries are at most 1e-14 K_ii, or 1e-7 K_ii for float32 without normalisation.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Gaussian, KernelBank, Linear
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [2.0, 3.0]])
    >>> bank = KernelBank([Linear(), Gaussian(1.0, features=0)], X)
    >>> bank.quadratic_forms(np.array([1.0, -1.0, 0.0])).round(4).tolist()
    [4.0, 1.7293]
    >>> bank.weighted_sum([1.0, 0.0]).tolist()
    [[1.0, 1.0, 3.0], [1.0, 5.0, 7.0], [3.0, 7.0, 13.0]]
    >>> bank.predict(np.array([[1.0, 1.0]]), [1.0, 0.0], [1.0, 0.0, 1.0]).tolist()
    [6.0]
    """

    kernels: Sequence[Kernel]
    X: Any
    normalize: Any = field(default=None, kw_only=True)
    dtype: Any = field(default=np.float64, kw_only=True)
    memory: float = field(default=1 << 30, kw_only=True)
    feature_names: Sequence[str] | None = field(default=None, kw_only=True)
    n_samples: int = field(init=False)
    names: tuple[str, ...] = field(init=False)
    _scales: Array = field(init=False)
    _made: tuple[BankParts, list[tuple[NormalizationStep, ...]]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels) if isinstance(self.kernels, Sequence) else (self.kernels,)
        if not kernels:
            raise InvalidInputError("kernels is empty; give at least one kernel, such as Linear().")
        for k, kernel in enumerate(kernels):
            if not isinstance(kernel, Kernel):
                raise InvalidInputError(f"kernels[{k}] must be a kernel such as Linear(), got {kernel!r}.")
        given = getattr(self.X, "columns", None) if self.feature_names is None else self.feature_names
        X = as_matrix(self.X)
        feature_names = None if given is None else [str(name) for name in given]
        if feature_names is not None and len(feature_names) != X.shape[1]:
            raise InvalidInputError(
                f"feature_names must name {X.shape[1]} columns of X, got {len(feature_names)} names."
            )
        for kernel in kernels:
            kernel.check(X)
        if self.dtype not in (np.float32, np.float64):
            raise InvalidInputError(f"dtype must be float64 or float32, got {self.dtype!r}.")
        set_fields(
            self, kernels=kernels, X=X, normalize=as_normalization(self.normalize),
            dtype=np.dtype(self.dtype), memory=as_scalar("memory", self.memory, low=0.0, infinite=True),
            names=tuple(kernel.describe(feature_names) for kernel in kernels), n_samples=X.shape[0],
            _scales=np.ones(len(kernels)),
        )  # fmt: skip

    @property
    def parts(self) -> BankParts:
        return self._computed()[0]

    def predict(self, Z: Any, weights: Array, a: Array) -> Array:
        """Return the sum of weights_k K_k(Z, X) a; kernels with weight zero are not evaluated.

        Parameters
        ----------
        Z : ndarray or sparse matrix of shape (p, n)
            New points, with the columns of X.
        weights : array_like of shape (n_kernels,)
        a : array_like of shape (m,)
            Examples with a_i = 0 are skipped, unless the kernels are centred.

        Returns
        -------
        ndarray of shape (p,)
        """
        weights, a = self._coefficients(weights, a)
        Z = as_matrix(Z, "Z")
        if Z.shape[1] != self.X.shape[1]:
            raise InvalidInputError(
                f"Z has {Z.shape[1]} columns, but the bank was made of {self.X.shape[1]}; pass the same ones."
            )
        examples = np.arange(a.size) if "center" in self.normalize else np.flatnonzero(a)
        out = np.zeros(Z.shape[0])
        if not examples.size:
            return out
        steps = self._computed()[1] if self.normalize else [()] * self.n_kernels
        height = max(1, TILE // examples.size)
        blocks = [slice(i, min(i + height, out.size)) for i in range(0, out.size, height)]
        for k in np.flatnonzero(weights).tolist():
            kernel, coefficients = self.kernels[k], weights[k] * a[examples]
            points = select_columns(kernel.check(Z), kernel.features)
            columns = select_columns(self.X, kernel.features)
            columns = columns if examples.size == a.size else columns[examples]
            values = partial(_new_values, kernel, points, columns, examples, steps[k])

            def add(rows: slice, values: Any = values, coefficients: Array = coefficients) -> None:
                out[rows] += values(rows) @ coefficients

            run_chunks(add, blocks)
        return out

    def _computed(self) -> tuple[BankParts, list[tuple[NormalizationStep, ...]]]:
        if self._made is None:
            set_fields(self, _made=self._compute())
        assert self._made is not None
        return self._made

    def _compute(self) -> tuple[BankParts, list[tuple[NormalizationStep, ...]]]:
        m, n = self.n_samples, self.n_kernels
        steps: list[tuple[NormalizationStep, ...]] = []
        dense: dict[int, KernelValues | KeptPanels] = {}
        available, size = self.memory, panel_entries(m) * self.dtype.itemsize

        def factors() -> Iterator[tuple[int, Array]]:
            nonlocal available
            for k, form in enumerate(self._forms_of_kernels()):
                form, learnt = normalized(form, self.normalize)
                steps.append(learnt)
                if isinstance(form, KernelFactor):
                    yield k, form.F
                    continue
                dense[k] = KeptPanels.of(form, m, self.dtype) if size <= available else form
                available -= dense[k].n_bytes

        with np.errstate(over="ignore", invalid="ignore"):
            factored = FactoredKernels.of(m, n, factors(), self.dtype)
        return (factored, SymmetricMatrices(m, n, np.array([*dense], np.int64), (*dense.values(),))), steps

    def _forms_of_kernels(self) -> Iterator[KernelFactor | KernelValues]:
        by_column = self.X
        if sparse.issparse(self.X) and any(kernel.features is not None for kernel in self.kernels):
            by_column = self.X.tocsc()

        @lru_cache(_KEPT_COLUMNS)
        def select(features: Any) -> Any:
            return select_columns(self.X if features is None else by_column, features)

        # With normalisation the tolerance is tight, because a centred kernel may be much smaller.
        tol = _ROUNDING[np.dtype(np.float64) if self.normalize else self.dtype]
        for kernel in self.kernels:
            yield cheapest_form(kernel, select(kernel.features), tol)

    def _restricted(self, numbers: Array) -> Self:
        made = self._made
        if made is not None:
            factored, dense = (part.restricted(numbers) for part in made[0])
            made = (factored, dense), [made[1][k] for k in numbers]
        kernels = tuple(self.kernels[k] for k in numbers)
        names = tuple(self.names[k] for k in numbers)
        return self._changed(kernels=kernels, names=names, _scales=self._scales[numbers], _made=made)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": None}

    def __repr__(self) -> str:
        normalize = f", normalize={self.normalize}" if self.normalize else ""
        dtype = f", {self.dtype}" if self.dtype == np.float32 else ""
        return f"KernelBank({self.n_kernels} kernels, {self.n_samples} examples{normalize}{dtype})"

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts() | {"normalisation": ", ".join(self.normalize) or "none"}
        if self._made is not None:
            factored, dense = self.parts
            facts["kept"] = (
                f"{self.n_kernels - len(dense)} as factors with {factored.n_columns} columns, "
                f"{len(dense)} as matrices; {self.n_bytes / 2**20:.1f} MiB"
            )
        return facts


def _new_values(
    kernel: Kernel,
    points: Any,
    columns: Any,
    examples: Array,
    steps: tuple[NormalizationStep, ...],
    rows: slice,
) -> Array:
    """Return the normalised kernel values of some new points with some of the examples."""
    K = kernel.evaluate(points[rows], columns)
    if steps:
        diagonal = kernel.evaluate_diagonal(points[rows])
        for step in steps:
            K, diagonal = step.new(K, diagonal, examples)
    return K


@dataclass(frozen=True, eq=False)
class KernelFactor:
    """K = F F'."""

    F: Array

    def diagonal(self) -> Array:
        """Return K_ii, shape (m,)."""
        return np.einsum("ij,ij->i", self.F, self.F)

    def means(self) -> Array:
        """Return the means of the rows of K, shape (m,)."""
        return self.F @ self.F.mean(axis=0)

    def then(self, step: NormalizationStep) -> KernelFactor:
        """Return the form after one more step of normalisation."""
        return KernelFactor(step.factored(self.F))


@dataclass(frozen=True, eq=False)
class KernelValues:
    """The matrix of a kernel function; its entries are computed when needed and not stored."""

    kernel: Kernel
    A: Any
    steps: tuple[NormalizationStep, ...] = ()
    n_bytes = 0

    def diagonal(self) -> Array:
        """Return K_ii, shape (m,)."""
        diagonal = self.kernel.evaluate_diagonal(self.A)
        for step in self.steps:
            diagonal = step.diagonal(diagonal)
        return diagonal

    def means(self) -> Array:
        """Return the means of the rows of K, shape (m,)."""
        m = self.A.shape[0]
        parts = [self._block(slice(*rows), slice(0, m)).mean(axis=1) for rows in panel_ranges(m)]
        return np.concatenate(parts)

    def then(self, step: NormalizationStep) -> KernelValues:
        """Return the form after one more step of normalisation."""
        return KernelValues(self.kernel, self.A, (*self.steps, step))

    def panel(self, first: int, stop: int) -> Array:
        """Return rows first to stop, up to column `stop`."""
        return read_only(np.ascontiguousarray(self._block(slice(first, stop), slice(0, stop))))

    def _block(self, rows: slice, columns: slice) -> Array:
        K = self.kernel.evaluate(self.A[rows], self.A[columns])
        for step in self.steps:
            K = step.examples(K, rows, columns)
        return K


def cheapest_form(kernel: Kernel, A: Any, tol: float) -> KernelFactor | KernelValues:
    """Return the kernel as a factor with at most m / 4 columns (16 for few examples), otherwise as values."""
    m = A.shape[0]
    diagonal = kernel.finite(kernel.evaluate_diagonal(A))
    cap = max(m // 4, min(m, 16))
    columns = kernel.factor_columns(A.shape[1])
    if columns is not None and columns <= cap:
        return KernelFactor(kernel.evaluate_factor(A))
    few_values = A.shape[1] == 1 and np.unique(A).size <= cap
    if not (kernel.smooth or few_values):
        return KernelValues(kernel, A)
    F = low_rank_factor(lambda i: kernel.evaluate(A, A[i : i + 1])[:, 0], diagonal, cap, tol, few_values)
    return KernelValues(kernel, A) if F is None else KernelFactor(F)


def low_rank_factor(
    column: Callable[[int], Array], diagonal: Array, cap: int, tol: float, patient: bool = False
) -> Array | None:
    """Return F with K - F F' positive semidefinite and K_ii - |F_i|^2 <= tol * K_ii for each i, or None.

    In this pivoted Cholesky decomposition, the next pivot is the example with the largest residual (K_ii -
    |F_i|^2) / K_ii. Relative residuals are used because all examples are then equally accurate.
    """
    residual = diagonal.astype(np.float64)
    inverses = np.divide(1.0, residual, out=np.zeros_like(residual), where=residual > 0.0)
    total = max(1, np.count_nonzero(inverses))
    rows = np.empty((min(_FIRST_LOOK, cap), residual.size))
    shares: list[float] = []  # mean relative residual before each column
    for r in range(cap + 1):
        relative = residual * inverses
        pivot = int(relative.argmax())
        shares.append(float(relative.sum() / total))
        if relative[pivot] <= tol:
            return rows[:r].copy().T
        if r == cap or (r >= _FIRST_LOOK and not patient and _estimated_rank(shares, tol) > 2 * cap):
            return None
        if r == rows.shape[0]:
            rows = np.concatenate([rows, np.empty((min(r, cap - r), residual.size))])
        row = rows[r]
        row[:] = column(pivot)
        if r:
            row -= rows[:r, pivot] @ rows[:r]
        row /= math.sqrt(residual[pivot])
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
    return None


def _estimated_rank(shares: list[float], tol: float) -> float:
    """Extrapolate the rank from the residuals of the last quarter of the columns.

    The residuals of smooth kernels decrease linearly at first, later geometrically or faster.
    """
    r, last = len(shares) - 1, shares[-1]
    before = 3 * r // 4
    if last > 0.01:
        fall, rest = (shares[before] - last) / (r - before), last
    else:
        fall, rest = math.log(shares[before] / last) / (r - before), math.log(max(last / tol, 1.0))
    return r + rest / fall if fall > 0.0 else math.inf


@dataclass(frozen=True, eq=False)
class ScaledFeatures:
    """s_i K_ij s_j, where all s_i are equal, or s_i = 1 / sqrt(K_ii), and 0 where K_ii <= floor.

    Attributes
    ----------
    scales : ndarray of shape (m,)
        The s_i of the examples.
    floor : float or None
        None if all s_i are equal.
    """

    scales: Array
    floor: float | None = None

    def examples(self, K: Array, rows: slice, columns: slice) -> Array:
        """Return the normalised K, a part of the matrix of the examples."""
        return K * self.scales[rows, np.newaxis] * self.scales[columns]

    def new(self, K: Array, diagonal: Array, columns: Any) -> tuple[Array, Array]:
        """Return the normalised kernels of new points with examples, and with themselves."""
        s = np.full(diagonal.size, self.scales[0])
        if self.floor is not None:
            s = inverse_roots(diagonal, self.floor)
        return K * s[:, np.newaxis] * self.scales[columns], s * diagonal * s

    def factored(self, F: Array) -> Array:
        """Return the factor of the result."""
        return F * self.scales[:, np.newaxis] if self.scales.any() else F[:, :0]

    def diagonal(self, diagonal: Array) -> Array:
        """Return the diagonal of the result for the examples."""
        return self.scales * diagonal * self.scales


@dataclass(frozen=True, eq=False)
class CentredFeatures:
    """The kernel of the features minus their mean over the examples."""

    means: Array
    mean: float

    def examples(self, K: Array, rows: slice, columns: slice) -> Array:
        """Return the normalised K, a part of the matrix of the examples."""
        return K - (self.means[rows, np.newaxis] + self.means[columns] - self.mean)

    def new(self, K: Array, diagonal: Array, columns: Any) -> tuple[Array, Array]:
        """Return the normalised kernels of new points with all examples, and with themselves."""
        means = K.mean(axis=1)
        return K - (
            means[:, np.newaxis] + self.means[columns] - self.mean
        ), diagonal - 2.0 * means + self.mean

    def factored(self, F: Array) -> Array:
        """Return the factor of the result."""
        return F - F.mean(axis=0)

    def diagonal(self, diagonal: Array) -> Array:
        """Return the diagonal of the result for the examples."""
        return np.maximum(diagonal - 2.0 * self.means + self.mean, 0.0)


NormalizationStep = ScaledFeatures | CentredFeatures


def as_normalization(normalize: Any) -> tuple[str, ...]:
    """Return the names of the steps in order, or raise `InvalidInputError`."""
    names = () if normalize is None else (normalize,) if isinstance(normalize, str) else normalize
    if not isinstance(names, tuple | list) or not all(name in NAMES for name in names):
        raise InvalidInputError(
            f"normalize must be None, {', '.join(map(repr, NAMES))} or a tuple of these, got {normalize!r}."
        )
    return tuple(names)


def normalized(form: Any, names: tuple[str, ...]) -> tuple[Any, tuple[NormalizationStep, ...]]:
    """Return the normalised form of a kernel, and the steps of the normalisation with their statistics.

    A kernel that is constant on the examples is set to zero by centring, because only rounding errors remain.
    """
    steps: list[NormalizationStep] = []
    floor = 0.0
    for name in names:
        diagonal = form.diagonal()
        if name == "trace":
            mean = float(diagonal.mean())
            scale = 1.0 / np.sqrt(mean) if mean > floor else 0.0
            learnt: list[NormalizationStep] = [ScaledFeatures(np.full(diagonal.size, scale))]
            floor /= mean if mean > floor else 1.0
        elif name == "diagonal":
            learnt = [ScaledFeatures(inverse_roots(diagonal, floor), floor)]
            floor = 0.0
        else:
            means = form.means()
            learnt = [CentredFeatures(means, float(means.mean()))]
            floor = max(floor, _NEGLIGIBLE * float(diagonal.max()))
            if form.then(learnt[0]).diagonal().max() <= floor:
                learnt.append(ScaledFeatures(np.zeros(diagonal.size)))
        for step in learnt:
            form = form.then(step)
        steps += learnt
    return form, tuple(steps)


def inverse_roots(diagonal: Array, floor: float) -> Array:
    """Return 1 / sqrt(d_i), and 0 where d_i <= floor."""
    large = diagonal > floor
    return np.where(large, 1.0 / np.sqrt(np.where(large, diagonal, 1.0)), 0.0)
