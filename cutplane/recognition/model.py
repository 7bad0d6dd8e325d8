"""Problems from cvxpy models; solutions are written back to the variables of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutplane.exceptions import InvalidInputError, NotConvexError

if TYPE_CHECKING:
    from cutplane.pieces.validation import Array
    from cutplane.problem import Problem
    from cutplane.recognition.images import Stack
    from cutplane.result import Result

_WIDTH = 80
"""Largest number of characters of a term in a repr, because terminals often have 80 columns."""
_ATTRIBUTES = ("nonneg", "nonpos", "pos", "neg", "bounds", "symmetric", "PSD", "NSD")


@dataclass(eq=False, repr=False)
class RecognisedModel:
    """A cvxpy model as a `Problem`; made by `from_cvxpy`.

    Attributes
    ----------
    problem : Problem
        minimise f(x) + g(x) over X, where x is the vector of the entries of all variables of the model, each
        variable in column-major order.
    variables : tuple of cvxpy.Variable
        The variables, in their order in x.
    sign : float
        1 for a model that minimises, -1 for one that maximises.
    constant : float
        The constant of the objective, which is ``sign * (f(x) + g(x) + constant)``.
    unrecognised : tuple of cvxpy.Expression
        The terms of the objective in a `CvxpyRisk` or a `CvxpyRegularizer`.
    result : Result or None
        Result of the last `solve`.

    Examples
    --------
    >>> import cvxpy as cp, cutplane as cut
    >>> w = cp.Variable(2, name="w")
    >>> model = cut.from_cvxpy(cp.Problem(cp.Maximize(1 - cp.sum_squares(w - 3)), [w <= [1, 4]]))
    >>> result = model.solve(tol=1e-9)
    >>> print(round(model.value, 6), w.value.round(6))
    -3.0 [1. 3.]
    """

    problem: Problem
    variables: tuple[Any, ...]
    sign: float
    constant: float
    unrecognised: tuple[Any, ...]
    _stack: Stack
    result: Result | None = field(default=None, init=False)

    def __repr__(self) -> str:
        from cutplane.pieces.cvxpy_tools import shortened

        names = ", ".join(variable.name() for variable in self.variables)
        others = "; ".join(shortened(term, _WIDTH) for term in self.unrecognised) or "nothing"
        return "\n".join(
            [
                f"RecognisedModel in {names}, {'minimised' if self.sign > 0.0 else 'maximised'}",
                f"  risk: {self.problem.risk!r}",
                f"  regularizer: {self.problem.regularizer!r}",
                f"  feasible set: {self.problem.feasible_set!r}",
                f"  constant: {self.constant:g}",
                f"  not recognised: {others}",
            ]
        )

    @property
    def value(self) -> float | None:
        """Objective of the model at the solution, with its sign and constants; None before `solve`."""
        return None if self.result is None else self.sign * (self.result.objective + self.constant)

    def solve(self, **options: Any) -> Result:
        """Solve the problem, and set the variables of the model to their optimal values.

        Parameters
        ----------
        **options
            Passed to `Problem.solve`. The tolerance is relative to the objective without the constant.

        Returns
        -------
        Result
        """
        self.result = self.problem.solve(**options)
        self._stack.store(self.result.x)
        return self.result

    def objective(self, x: Any) -> float:
        """Return the objective of the model at x, with its sign and constants."""
        return self.sign * (self.problem.objective(x) + self.constant)

    def entries(self) -> Array:
        """Return x for the current values of the variables, for example as a start ``x0``."""
        return self._stack.entries()


def from_cvxpy(model: Any) -> RecognisedModel:
    """Convert a cvxpy model to a problem of this library, with a fast risk for each loss of data.

    The following terms and constraints are recognised, in all usual spellings:

    * a sum over the rows of an affine image of a piecewise quadratic, logistic or exponential function
      becomes a `LinearRisk` on the data of the model. Examples are the hinge, squared hinge, absolute,
      quantile, epsilon-insensitive, squared and Huber losses; a scalar variable that is added to each row
      becomes the intercept;
    * the likelihood of classes, written with ``log_sum_exp``, becomes a `MulticlassRisk`;
    * norms and squares of the variables become `L1`, `L2`, `ElasticNet` or `QuadraticForm`;
    * bounds become a `Box`, and linear constraints a `Polyhedron`.

    All others become a `CvxpyRegularizer`, `CvxpyRisk` or `CvxpySet`, which cvxpy evaluates.

    Parameters
    ----------
    model : cvxpy.Problem
        Convex by cvxpy's rules (DCP). Its parameters have their current values.

    Returns
    -------
    RecognisedModel
        Its `repr` lists the recognised pieces; ``solve`` sets the values of the variables.

    Raises
    ------
    InvalidInputError
        If `model` is not a cvxpy problem, a variable is integer, boolean, complex or otherwise not a real
        vector or matrix, or a parameter has no value.
    NotConvexError
        If the model is not convex by cvxpy's rules.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0], [1.0]]), np.array([1.0, -1.0, 1.0])
    >>> w = cp.Variable(1, name="w")
    >>> hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / 3
    >>> model = cut.from_cvxpy(cp.Problem(cp.Minimize(hinge + 0.5 * cp.sum_squares(w))))
    >>> model.problem
    Problem(LinearRisk(Hinge(), 3 x 1 dense float64), L2(lam=1), WholeSpace())
    >>> result = model.solve(tol=1e-9)
    >>> print(result.status, round(model.value, 6), w.value.round(6))
    OPTIMAL 0.291667 [0.5]
    """
    import cvxpy as cp

    from cutplane.pieces.cvxpy_tools import check_numbers
    from cutplane.recognition.pieces import assembled

    if not isinstance(model, cp.Problem):
        raise InvalidInputError(f"from_cvxpy needs a cvxpy.Problem, got {type(model).__name__}.")
    _check_variables(model.variables())
    unset = [parameter.name() for parameter in model.parameters() if parameter.value is None]
    if unset:
        raise InvalidInputError(f"The model has parameters without a value: {unset}; set their .value first.")
    check_numbers("The model", model.objective.expr)
    for constraint in model.constraints:
        check_numbers("The model", constraint, finite=False)
    if not model.is_dcp():
        raise NotConvexError(
            "The model is not convex by cvxpy's rules (https://dcp.cvxpy.org): minimise a convex function, "
            "or maximise a concave one, over convex constraints."
        )
    sign = 1.0 if isinstance(model.objective, cp.Minimize) else -1.0
    problem, constant, unrecognised, stack = assembled(model, sign)
    return RecognisedModel(problem, stack.variables, sign, constant, unrecognised, stack)


def _check_variables(variables: list[Any]) -> None:
    if not variables:
        raise InvalidInputError("from_cvxpy needs a problem with a variable.")
    for variable in variables:
        if variable.size == 0:
            raise InvalidInputError(
                f"{variable.name()} has no entries, shape {variable.shape}; remove it from the model."
            )
        unsupported = [
            name
            for name, value in variable.attributes.items()
            if name not in _ATTRIBUTES and value is not None and value is not False and value != []
        ]
        if unsupported:
            raise InvalidInputError(
                f"{variable.name()} has the attribute {unsupported[0]}, which from_cvxpy does not support; "
                "write the model with real variables without it."
            )
