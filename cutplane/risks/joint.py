"""Risks that are not sums over examples: performance measures, and pairs of rows in the wrong order."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.measures.measures import Measure
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import brief, set_fields
from cutplane.pieces.validation import Array, as_numbers, as_signs, as_vector, refuse_masked
from cutplane.risks.base import ImagedRisk
from cutplane.risks.columns import FAR, Columns, in_units, moments
from cutplane.risks.data import Data, make_data
from cutplane.risks.examples import bias_slopes, describe
from cutplane.risks.matrix import as_matrix
from cutplane.runtime.chunks import balanced_ranges, count_chunks
from cutplane.runtime.threads import run_chunks

_MOST_PAIRS = 100_000
"""Most pairs of a conic programme, because it has one row per pair and takes about a second at this size."""
_FEW_LEVELS = 16
"""Most levels for which a table of counts is faster than a tree, because it fits into two cache lines."""
_COST = 40.0
"""Nanoseconds per row of the search for pairs, because only long searches are faster with several threads."""


class Scored:
    """The scores of a point, and the affine function that is largest there, computed on first use."""

    def __init__(self, risk: JointRisk, scores: Array) -> None:
        self.risk = risk
        self.scores = scores

    @cached_property
    def piece(self) -> tuple[float, Array]:
        """The offset and the slope of the largest affine function of the scores."""
        return self.risk.largest_piece(self.scores)

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """The value of the risk, inf where scores overflow, and the sum of its absolute terms."""
        offset, u = self.piece
        with np.errstate(over="ignore", invalid="ignore"):
            terms = u * self.scores  # not by BLAS, which starts threads and adds less exactly
            value = offset + float(terms.sum())
            return (value if np.isfinite(value) else np.inf), float(np.abs(terms).sum())

    @property
    def value(self) -> float:
        """The value of the risk."""
        return self.sizes[0]


class JointRisk(ImagedRisk):
    """f(w) = max_k (offset_k + <u_k, X w>), where finding the maximal k costs about as much as a pass over X.

    A subclass has the attributes `_data` and `intercept`.
    """

    intercept: bool = False
    _data: Data

    @abstractmethod
    def largest_piece(self, scores: Array) -> tuple[float, Array]:
        """Return offset_k and u_k of the function that is largest at the given scores, shape (m,)."""

    def image(self, x: Array) -> Scored:
        if not self.intercept:
            return Scored(self, self._data.times(x))
        return Scored(self, self._data.times(x[:-1]) + x[-1])

    def values(self, z: Scored) -> float:
        return z.value

    def slopes(self, z: Scored) -> Array:
        _, u = z.piece
        with np.errstate(over="ignore", invalid="ignore"):
            slope = self._data.transposed_times(u)
        if self.intercept:
            slope = np.append(slope, bias_slopes(u, self._data.edges))
        return slope if np.isfinite(z.value) and np.isfinite(slope).all() else np.zeros(self.dim)

    def combine(self, z0: Scored, z1: Scored, t: float) -> Scored:
        return Scored(self, z0.scores + t * (z1.scores - z0.scores))

    def line(self, z0: Scored, z1: Scored) -> Line:
        step = z1.scores - z0.scores

        def evaluate(t: float) -> tuple[float, float]:
            z = self.combine(z0, z1, t)
            return z.value, float((z.piece[1] * step).sum())

        return Line(evaluate, costly=True)

    def cancelled(self, z: Scored) -> float:
        return z.sizes[1]


@dataclass(frozen=True, eq=False, repr=False)
class MeasureRisk(JointRisk):
    """f(w) = max over labellings v of Delta(y, v) + (1/m) sum_i (v_i - y_i) <w, x_i>, for a measure Delta.

    v and y are vectors of m labels -1 and 1. f(w) is at least Delta(y, v) for the labels v_i = sign <w, x_i>
    that w predicts [1]_, and small if these are correct and the scores large. For a measure of the k largest
    scores, v has k positives, and f(w) is at least the loss of the k largest scores; if y has another number
    of positives, the mean of the best v replaces y in the sum. For the area under the ROC curve, v is an
    order of the examples, and f is the mean hinge loss of pairs. In addition to the passes over X, an
    evaluation sorts the scores and searches for v.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row; see `LinearRisk`.
    y : array_like of shape (m,)
        Labels -1 and +1, at least one of each.
    measure : Measure
        ``measures.FBeta()``, ``measures.RocArea()``, ``measures.PrecisionAt(k)``, ``measures.RecallAt(k)``,
        ``measures.PrecisionRecallBreakEven()``, or a subclass of `measures.TableMeasure`.
    intercept : bool, default False
        Whether the last coordinate of the problem, of dimension n + 1 then, is a bias that is added to every
        score. ``L2(lam, weights=[1, ..., 1, 0])`` leaves it unregularised. An intercept is an error for
        measures of the order of the scores, which are all of the above except `FBeta`, because a bias does
        not change this order.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, all labels are the same, `measure` is no
        `Measure` or admits no intercept, or k is larger than m.

    References
    ----------
    .. [1] T. Joachims, "A support vector method for multivariate performance measures", ICML 2005,
       doi:10.1145/1102351.1102399.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [1.0], [-1.0], [-3.0]]), [1, 1, 1, -1]
    >>> risk = cut.MeasureRisk(X, y, cut.measures.FBeta(1.0))
    >>> risk
    MeasureRisk(FBeta(beta=1.0), 4 x 1 dense float64)
    >>> risk(np.zeros(1)), risk(np.ones(1))
    (1.0, 0.7)
    """

    X: Any
    y: Array
    measure: Measure
    intercept: bool = False
    _positive: Array = field(init=False)
    _infimum: float = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.measure, Measure):
            hint = f"; did you mean {self.measure.__name__}()?" if isinstance(self.measure, type) else "."
            raise InvalidInputError(
                f"measure must be a measure such as cutplane.measures.FBeta(), got {self.measure!r}{hint}"
            )
        X = as_matrix(self.X)
        m, n = X.shape
        y = as_signs("MeasureRisk", self.y)
        if y.shape != (m,):
            raise InvalidInputError(f"y must have one label per row of X, shape ({m},), got {y.shape}.")
        if (y == y[0]).all():
            raise InvalidInputError(f"MeasureRisk needs labels of both signs, but every y is {y[0]:g}.")
        if not isinstance(self.intercept, bool | np.bool_):
            raise InvalidInputError(f"intercept must be True or False, got {self.intercept!r}.")
        if self.intercept and self.measure.ranks:
            raise InvalidInputError(
                f"{self.measure!r} depends on the order of the scores alone, which a bias does not change; "
                "pass intercept=False."
            )
        positive = y > 0.0
        positives = int(positive.sum())
        set_fields(
            self,
            X=X,
            y=y,
            dim=n + int(self.intercept),
            _data=make_data(X, np.array([0, m])),
            black_box=self.measure.black_box,
            _positive=positive,
            _infimum=self.measure.infimum(positives, m - positives),
        )

    def __repr__(self) -> str:
        return f"MeasureRisk({self.measure!r}, {describe(self.X)}{', intercept' if self.intercept else ''})"

    @property
    def infima(self) -> Array:
        return np.array([self._infimum])

    def largest_piece(self, scores: Array) -> tuple[float, Array]:
        return self.measure.most_violated(scores, self._positive)


@dataclass(frozen=True, eq=False, repr=False)
class RankingRisk(JointRisk):
    """f(w) = sum over pairs i, j of a query with y_i < y_j of c(y_i, y_j) max(0, 1 + <w, x_i - x_j>) / total.

    The total is the sum of the costs c over all pairs, so that f is the (weighted) mean hinge loss of pairs.
    Rows of different queries are not compared. One query with two levels of relevance gives the hinge loss of
    the area under the ROC curve. In addition to the passes over X, an evaluation takes O(m log m) operations
    for any number of pairs [1]_, or O(m R) with costs, for R levels.

    There is no intercept, because a constant added to all scores of a query does not change f.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example (a document of a query) per row; see `LinearRisk`.
    relevance : array_like of shape (m,)
        Numbers; a row of larger relevance should have a larger score. The different numbers are the levels.
    groups : array_like, optional
        The query of each row, shape (m,), as ``sklearn.datasets.load_svmlight_file(..., query_id=True)``
        returns it: numbers or strings, in any order. A shorter vector holds the sizes of consecutive queries,
        with the sum m, as ``group`` of LightGBM does. By default all rows are one query.
    cost : None, "gain", callable or array_like of shape (R, R), default None
        The cost of a pair, at least 0. None: 1. "gain": 2^y_j - 2^y_i, the difference of the gains of NDCG. A
        callable: ``cost(y_i, y_j)`` for all levels y_i < y_j. A matrix: entry (k, l) is the cost of a pair of
        levels k < l, numbered in ascending order; entries on and below the diagonal are ignored.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, a cost is negative, or no query has a
        pair of different levels with a positive cost.

    References
    ----------
    .. [1] T. Joachims, "Training linear SVMs in linear time", KDD 2006, doi:10.1145/1150402.1150429.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import RankingRisk
    >>> risk = RankingRisk(np.array([[1.0], [3.0], [2.0], [0.5]]), [0, 1, 2, 0], groups=[2, 2])
    >>> risk
    RankingRisk(4 x 1 dense float64, 2 queries, 3 levels, 2 pairs)
    >>> value, slope = risk.oracle(np.array([0.6]))
    >>> round(float(value), 6), slope.tolist()
    (0.05, [-0.75])
    """

    black_box = False
    X: Any
    relevance: Array
    groups: Any = None
    cost: Any = None
    n_pairs: int = field(init=False)
    total: float = field(init=False)
    _queries: Array = field(init=False)
    _starts: Array = field(init=False)
    _levels: Array = field(init=False)
    _tables: Array = field(init=False)

    def __post_init__(self) -> None:
        X = as_matrix(self.X)
        m, n = X.shape
        relevance = as_vector("relevance", self.relevance, m)
        queries = _as_queries(self.groups, m)
        values, levels = np.unique(relevance, return_inverse=True)
        starts = np.append(0, np.cumsum(np.bincount(queries)))
        size = 1 + int(levels.max())
        cells, inverse, counts = np.unique(queries * size + levels, return_inverse=True, return_counts=True)
        query_of, level_of = np.divmod(cells, size)  # of each pair (query, level) that occurs
        pairs = np.square(np.diff(starts), dtype=np.float64).sum() - np.square(counts).sum()
        total = n_pairs = 0.5 * float(pairs)
        if self.cost is None:
            levels = (np.arange(counts.size) - np.searchsorted(query_of, query_of))[inverse]
            n_levels = 1 + int(levels.max())
            costs = np.triu(np.ones((n_levels, n_levels)), 1) if n_levels <= _FEW_LEVELS else None
        else:
            costs = _as_costs(self.cost, values)
            table = counts.astype(np.float64), (query_of, level_of)
            table = sparse.csr_array(table, shape=(starts.size - 1, len(costs)))
            total = float((costs * (table.T @ table).toarray()).sum())
        if not total > 0.0:
            wanted = "a positive cost" if n_pairs else "different relevance"
            raise InvalidInputError(
                f"RankingRisk needs two rows of {wanted} in one query, but none of the {starts.size - 1} "
                f"queries over {m} rows has any; look at relevance, groups and cost."
            )
        set_fields(
            self,
            X=X,
            relevance=relevance,
            dim=n,
            n_pairs=int(n_pairs),
            total=float(total),
            _data=make_data(X, np.array([0, m])),
            _queries=queries,
            _starts=starts,
            _levels=levels,
            _tables=np.empty((0, 0, 0)) if costs is None else np.stack([costs, costs.T]),
        )

    def __repr__(self) -> str:
        queries, levels = self._starts.size - 1, np.unique(self.relevance).size
        cost = "" if self.cost is None else f", cost={brief(self.cost)}"
        return (
            f"RankingRisk({describe(self.X)}, {queries} {'query' if queries == 1 else 'queries'}, "
            f"{levels} levels, {self.n_pairs} pairs{cost})"
        )

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The form for cvxpy, which has a row for each pair, if there are many."""
        return (Capability.CVXPY,) if self.n_pairs > _MOST_PAIRS else ()

    @property
    def infima(self) -> Array:
        return np.zeros(1)

    def data_columns(self) -> Columns:
        with np.errstate(all="ignore"):
            _, _, deviation = moments(self.X)
        return Columns(np.zeros(self.dim), np.zeros(self.dim), deviation)

    def in_units(self, centre: Array, size: Array) -> RankingRisk:
        """Return the risk of the columns (X - 1 centre') / size."""
        centre, mean, deviation = moments(self.X)
        far = np.abs(mean) > FAR * deviation
        return replace(self, X=in_units(self.X, np.where(far, centre, 0.0), size))

    def accuracy(self, x: Array) -> float:
        """Return the share of the pairs in the right order for w = x, weighted by cost; a tie counts half.

        For one query with two levels, this is the area under the ROC curve.

        Parameters
        ----------
        x : ndarray of shape (dim,)

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> risk = cut.RankingRisk(np.array([[1.0], [3.0], [2.0]]), [0, 1, 2])
        >>> round(risk.accuracy(np.ones(1)), 6)
        0.666667
        """
        ranks = np.unique(self.image(x).scores, return_inverse=True)[1].astype(np.float64)
        wrong, right = self.largest_piece(ranks)[0], self.largest_piece(-ranks)[0]  # ties are in both counts
        return 0.5 * (1.0 + right - wrong)

    def largest_piece(self, scores: Array) -> tuple[float, Array]:
        from cutplane.measures.passes import order_within, wrong_pairs

        order = order_within(scores, self._queries, self._starts)
        n_levels = self._tables.shape[1] or 1 + int(self._levels.max())
        slopes = np.empty(scores.size)

        def count(part: tuple[int, int]) -> float:
            return wrong_pairs(
                scores, order, self._starts, self._levels, n_levels, self._tables, *part, slopes
            )

        wrong = sum(run_chunks(count, self._chunks))
        slopes /= self.total
        return wrong / self.total, slopes

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        lower, higher, costs = self._pairs()
        ones = np.ones(lower.size)
        rows = np.arange(lower.size)
        shape = lower.size, self.X.shape[0]
        differences = sparse.csr_array((ones, (rows, lower)), shape=shape) - sparse.csr_array(
            (ones, (rows, higher)), shape=shape
        )
        return (costs / self.total) @ cp.pos(1.0 + differences @ (cp.Constant(self.X) @ x))

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        return balanced_ranges(self._starts, count_chunks(_COST * self._starts[-1]))

    def _pairs(self) -> tuple[Array, Array, Array]:
        """Return the lower and the higher row of every pair, and its cost."""
        rows = np.lexsort((self._levels, self._queries))
        cells = self._queries[rows] * (1 + int(self._levels.max())) + self._levels[rows]
        first = np.searchsorted(cells, cells, side="right")  # where the query's higher rows begin
        counts = self._starts[self._queries[rows] + 1] - first
        places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        lower, higher = np.repeat(rows, counts), rows[places]
        costs = self._tables[0, self._levels[lower], self._levels[higher]] if self._tables.size else 1.0
        return lower, higher, np.broadcast_to(costs, lower.shape)


def _as_queries(groups: Any, m: int) -> Array:
    """Return the number 0, 1, ... of the query of each row, from ids or from sizes."""
    if groups is None:
        return np.zeros(m, np.int64)
    refuse_masked("groups", groups)
    given = np.asarray(groups)
    if given.dtype.kind in "fc":
        given = as_numbers("groups", given)
    if given.shape == (m,):
        return np.unique(given, return_inverse=True)[1]
    sizes = given.astype(np.int64) if given.dtype.kind in "iu" and given.ndim == 1 else np.empty(0, np.int64)
    if sizes.sum() != m or (sizes < 1).any():
        raise InvalidInputError(
            f"groups must hold the query of each row of X, shape ({m},), or the sizes of consecutive "
            f"queries, positive integers with the sum {m}; got shape {given.shape}, dtype {given.dtype}"
            + (f" and the sum {sizes.sum()}." if sizes.size else ".")
        )
    return np.repeat(np.arange(sizes.size), sizes)


def _as_costs(cost: Any, values: Array) -> Array:
    """Return the costs of pairs of levels, shape (R, R), in the upper triangle."""
    size = values.size
    if isinstance(cost, str) and cost == "gain":
        with np.errstate(over="ignore", invalid="ignore"):
            gains = np.exp2(values)
            costs = gains - gains[:, np.newaxis]
    elif callable(cost):
        costs = np.array([[cost(a, b) if a < b else 0.0 for b in values] for a in values], dtype=np.float64)
    else:
        costs = np.empty(0) if isinstance(cost, str) else as_numbers("cost", cost)
    if costs.shape != (size, size):
        raise InvalidInputError(
            f'cost must be None, "gain", a callable or a matrix of shape ({size}, {size}) for the {size} '
            f"levels of relevance, got {f'shape {costs.shape}' if costs.size else repr(cost)}."
        )
    costs = np.triu(costs, 1)
    wrong = np.argwhere(~((costs >= 0.0) & (costs < np.inf)))
    if wrong.size:
        k, j = wrong[0]
        raise InvalidInputError(
            f"The cost of a pair of the levels {values[k]:g} and {values[j]:g} is {costs[k, j]:g}; it must "
            "be finite and at least 0."
        )
    return costs
