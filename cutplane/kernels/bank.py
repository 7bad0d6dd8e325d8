"""Kernel functions on given examples, each kept in its cheapest form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.factored import FactoredKernels
from cutplane.kernels.features import select_columns
from cutplane.kernels.forms import Factor, Values, cheapest_form
from cutplane.kernels.normalization import Step, as_normalization, normalized
from cutplane.kernels.panels import Kept, SymmetricMatrices, panel_entries
from cutplane.kernels.protocol import Bank, Parts, as_coefficients
from cutplane.pieces.validation import Array, as_scalar
from cutplane.risks.matrix import TILE, as_matrix
from cutplane.runtime.threads import run_chunks

_ROUNDING = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 1e-7}
"""Part of the trace that a factor may leave out: what rounding to that type takes anyway."""

_KEPT_COLUMNS = 64
"""Selections of columns remembered while the kernels are computed."""


@dataclass(frozen=True, eq=False, repr=False)
class KernelBank(Bank):
    """Kernels K_k = (k_k(x_i, x_j))_ij on the rows x_i of one matrix.

    Nothing is computed before it is needed. Then each kernel is brought into its cheapest form, once: a
    factor F with F F' = K if it has one with few columns; else, if its rank is low to rounding, the factor of
    a pivoted Cholesky decomposition, which never sees all of K; else K itself.

    Parameters
    ----------
    kernels : sequence of Kernel
        At least one.
    X : ndarray or sparse matrix of shape (m, n)
        One row per example; float32, float64, CSR and CSC are not copied.
    normalize : {"trace", "diagonal", "center"} or tuple of these, optional
        By default the kernels are left as they are. "trace" divides K by its mean diagonal, "diagonal" makes
        K_ij / sqrt(K_ii K_jj) of it, "center" subtracts the mean of the examples in feature space; a tuple
        does one after the other. New points are treated likewise, with the statistics of the examples.
        Kernels that are zero, or constant and centred, stay zero.
    dtype : {float64, float32}, default float64
        In which kernels are kept; sums are always in float64. float32 takes half the memory and leaves 7
        digits.
    memory : float, default 2^30
        Bytes for kernels that have no factor. Those beyond are computed anew in every pass, some rows at a
        time.
    feature_names : sequence of str of length n, optional
        Used in the names of the kernels; by default the columns of a DataFrame, or numbers.

    Attributes
    ----------
    n_kernels, n_samples : int
    names : tuple of str

    Raises
    ------
    InvalidInputError
        If there are no kernels, one needs a column that X lacks or dense data, an entry is not finite, an
        argument is out of range; in the first pass, if values of a kernel overflow.

    Notes
    -----
    A kernel takes 8 m r bytes, where r is the number of columns of its factor, at most m / 4 (16 for few
    examples). Without a factor it takes 4 m (m + h), the part up to the diagonal in panels of h = 65536 / m
    rows (at most m). float32 halves that. A normalisation "diagonal" or "center" takes 8 m more. To pickle a
    bank pickles the kernels and X; the rest is computed again.

    Of a factor by pivoted Cholesky decomposition, K - F F' is positive semidefinite with at most 1e-14 of
    each K_ii on its diagonal, or 1e-7 for float32 without normalisation.

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
    _made: tuple[Parts, list[tuple[Step, ...]]] | None = field(init=False, default=None)

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
        for name, value in {
            "kernels": kernels,
            "X": X,
            "normalize": as_normalization(self.normalize),
            "dtype": np.dtype(self.dtype),
            "memory": as_scalar("memory", self.memory, low=0.0, infinite=True),
            "n_samples": X.shape[0],
            "names": tuple(kernel.describe(feature_names) for kernel in kernels),
            "_scales": np.ones(len(kernels)),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def parts(self) -> Parts:
        """The kernels in the form in which they are kept, before they are scaled."""
        return self._computed()[0]

    def predict(self, Z: Any, weights: Array, a: Array) -> Array:
        """Return the sum of weights_k K_k(Z, X) a; kernels with weight zero are not evaluated.

        Parameters
        ----------
        Z : ndarray or sparse matrix of shape (p, n)
            New points, with the columns of X.
        weights : array_like of shape (n_kernels,)
        a : array_like of shape (m,)
            Examples with a_i = 0 are left out, unless the kernels are centred.

        Returns
        -------
        ndarray of shape (p,)
        """
        weights, a = as_coefficients(self, weights, a)
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
            values = _NewValues(self.kernels[k], Z, self.X, examples, steps[k])
            coefficients = weights[k] * a[examples]
            run_chunks(partial(values.add, coefficients, out), blocks)
        return out

    def _computed(self) -> tuple[Parts, list[tuple[Step, ...]]]:
        if self._made is None:
            object.__setattr__(self, "_made", self._compute())
        assert self._made is not None
        return self._made

    def _compute(self) -> tuple[Parts, list[tuple[Step, ...]]]:
        m = self.n_samples
        steps: list[tuple[Step, ...]] = []
        dense: list[tuple[int, Values | Kept]] = []
        left, size = self.memory, panel_entries(m) * self.dtype.itemsize

        def factors() -> Iterator[Array]:
            nonlocal left
            for k, form in enumerate(self._forms_of_kernels()):
                form, learnt = normalized(form, self.normalize)
                steps.append(learnt)
                if form.factor is not None:
                    yield form.factor
                    continue
                kept = Kept.of(form, m, self.dtype) if size <= left else form
                left -= kept.n_bytes
                dense.append((k, kept))

        with np.errstate(over="ignore", invalid="ignore"):
            factored = FactoredKernels.of(m, factors(), self.dtype)
        which_dense = np.array([k for k, _ in dense], dtype=np.int64)
        which_factored = np.setdiff1d(np.arange(self.n_kernels), which_dense)
        matrices = SymmetricMatrices(m, tuple(source for _, source in dense))
        return Parts(factored, matrices, which_factored, which_dense), steps

    def _forms_of_kernels(self) -> Iterator[Factor | Values]:
        by_column = self.X
        if sparse.issparse(self.X) and any(kernel.features is not None for kernel in self.kernels):
            by_column = self.X.tocsc()

        @lru_cache(_KEPT_COLUMNS)
        def select(features: Any) -> Any:
            return select_columns(self.X if features is None else by_column, features)

        # Centring may leave little of a kernel: of what it leaves, a rough factor would be no factor.
        tol = _ROUNDING[np.dtype(np.float64) if self.normalize else self.dtype]
        for kernel in self.kernels:
            yield cheapest_form(kernel, select(kernel.features), tol)

    def _restricted(self, numbers: Array) -> Self:
        made = self._made
        if made is not None:
            made = (made[0].restricted(numbers), [made[1][k] for k in numbers])
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
            parts = self.parts
            facts["kept"] = (
                f"{len(parts.factored)} as factors with {parts.factored.n_columns} columns, "
                f"{len(parts.dense)} as matrices; {self.n_bytes / 2**20:.1f} MiB"
            )
        return facts


class _NewValues:
    """The kernels of new points with some of the examples."""

    def __init__(self, kernel: Kernel, Z: Any, X: Any, examples: Array, steps: tuple[Step, ...]) -> None:
        self.kernel = kernel
        self.steps = steps
        self.examples = examples
        self.points = select_columns(kernel.check(Z), kernel.features)
        B = select_columns(X, kernel.features)
        self.B = B if examples.size == B.shape[0] else B[examples]

    def add(self, a: Array, out: Array, rows: slice) -> None:
        """Add K a for some new points to `out`."""
        points = self.points[rows]
        K = self.kernel.evaluate(points, self.B)
        if self.steps:
            diagonal = self.kernel.evaluate_diagonal(points)
            for step in self.steps:
                K, diagonal = step.new(K, diagonal, self.examples)
        out[rows] += K @ a
