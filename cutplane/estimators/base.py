"""The base classes of all estimators: inherited docstrings, certified results, classification, regression."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_scalar, as_vector, refuse_masked
from cutplane.risks.columns import oddest

_Class = TypeVar("_Class", bound=type)
_HEADING = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def estimator(cls: _Class) -> _Class:
    """Make a class a dataclass, and complete its docstring and the docstrings of its public methods.

    Each parameter, attribute, argument and result is described once, in the first class that has it, for
    example `tol` in `CertifiedEstimator` and the argument X of ``fit`` in ``CertifiedEstimator.fit``. A
    derived class describes only its additions and differences.
    """
    made: Any = dataclass(eq=False, repr=False)(cls)
    bases = [base for base in reversed(made.__mro__) if base.__module__.startswith(str(__package__))]
    for name in [name for name in vars(made) if not name.startswith("_")]:
        overridden = [_function(vars(base)[name]) for base in bases if name in vars(base)]
        if all(map(inspect.isfunction, overridden)):
            texts = [function.__doc__ for function in overridden]
            names = inspect.signature(overridden[-1]).parameters
            overridden[-1].__doc__ = _completed(texts, names, {"Returns", "Raises"})
    made._written = made.__doc__
    texts = [vars(base).get("_written", base.__doc__) for base in bases]
    paragraphs = [_HEADING.split(inspect.cleandoc(text or ""))[0].strip().partition("\n\n") for text in texts]
    inherited = "\n\n".join(rest for _, _, rest in paragraphs[:-1] if rest)
    summary, _, rest = paragraphs[-1]
    head = "\n\n".join(part for part in (summary, inherited, rest) if part)
    made.__doc__ = _completed(texts, inspect.signature(made).parameters, set(), head)
    return made


def _function(member: Any) -> Any:
    """Return the function of a method, also if scikit-learn's `available_if` wraps it."""
    return getattr(member, "fn", member)


def _completed(texts: Sequence[str | None], names: Iterable[str], shared: set[str], top: str = "") -> str:
    """Return the last docstring, or `top`, with the entries and `shared` sections of the others added."""
    sections: dict[str, str] = {}
    entries: dict[str, dict[str, str]] = {"Parameters": {}, "Attributes": {}}
    head, present = "", {}
    for text in texts:
        head, *rest = _HEADING.split(inspect.cleandoc(text or ""))
        present = dict(zip(rest[::2], rest[1::2], strict=True))
        sections |= {title: text for title, text in present.items() if title in shared}
        for title, found in entries.items():
            found |= _entries(present.get(title, ""))
    described = entries["Parameters"]
    sections = {
        "Parameters": "".join(described[name] for name in names if name in described),
        "Attributes": "".join(entries["Attributes"].values()),
        **sections,
        **{title: text for title, text in present.items() if title not in entries},
    }
    parts = [f"{title}\n{'-' * len(title)}\n{text.strip()}\n" for title, text in sections.items() if text]
    return "\n".join([(top or head).strip() + "\n", *parts])


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section as a dict with the names before the colon as keys."""
    entries = (entry.rstrip() + "\n" for entry in _ENTRY.split(section) if entry.strip())
    return {re.split(" :|\n", entry)[0].lstrip("*"): entry for entry in entries}


@estimator
class CertifiedEstimator(BaseEstimator):
    """An estimator whose problems are solved with certificates; pickles exclude the results.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective, of each problem.
    max_iter : int, default 10000
        Largest number of iterations for each problem.
    time_limit : float, optional
        Seconds for each problem.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    objective_, lower_bound_ : float
        The objective, summed over the problems, and a certified lower bound of its minimum.
    gap_ : float
        The largest relative gap of the problems.
    n_iter_ : int
        The largest number of iterations of a problem.
    results_ : tuple of Result
        One result for each problem, for example for ``results_[0].certificate.verify()``; `result_` is the
        result of a single problem. A result may be scaled by a factor, for example to the mean loss. Pickles
        of the estimator exclude the results, because these refer to the training data.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.
    """

    _: KW_ONLY
    tol: float = 1e-3
    max_iter: int = 10_000
    time_limit: float | None = None
    verbose: int = 0
    results_: tuple[Any, ...] = field(init=False)
    n_features_in_: int = field(init=False)
    _formats: ClassVar[Any] = MappingProxyType(
        {"accept_sparse": ("csr", "csc"), "dtype": (np.float64, np.float32)}
    )
    _target_checks: ClassVar[Any] = MappingProxyType({})
    _unpickled = ("results_",)
    _gap = "gap"
    _scale = 1.0

    @property
    def result_(self) -> Any:
        """The result of a single problem; AttributeError if there are several, for example in one-vs-rest."""
        check_is_fitted(self)
        if len(self.results_) != 1:
            raise AttributeError(f"{len(self.results_)} problems were solved; their results are in results_.")
        return self.results_[0]

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        **unsupported
            Refused with an error, for example `sample_weight`, because this estimator has no weights of
            examples.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``, if a parameter or an argument is invalid.
        """
        for name in unsupported:
            remedy = "; repeat examples with larger weights" if name == "sample_weight" else ""
            raise InvalidInputError(f"{type(self).__name__}.fit takes only X and y, not {name}{remedy}.")
        self._store(self._fitted(X, y))
        return self

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> Sequence[Any]:
        """Return the results of the problems."""
        return [self._solve(problem) for problem in self._declare(X, y, sample_weight)]

    def _declare(self, X: Any, y: Any, sample_weight: Any = None) -> Sequence[Any]:
        """Check the data and return the problems."""
        raise NotImplementedError

    def _solve(self, problem: Any) -> Any:
        """Return the result of a problem."""
        return uninterrupted(problem.solve(**self._limits))

    def _store(self, results: Sequence[Any]) -> None:
        """Set the fitted attributes."""
        self._keep(results)

    def _predictions(self, X: Any) -> Array:
        """Return the values of the predictors, one column for each problem."""
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """Return the predictions.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predictions(X)[:, 0]

    @property
    def _limits(self) -> dict[str, Any]:
        """The arguments of ``solve`` that all problems share."""
        limits = {"tol": self.tol, "max_iter": self.max_iter, "time_limit": self.time_limit}
        return {**limits, "log": bool(self.verbose)}

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Return the checked examples and targets."""
        X, y = checked(self, X, y, **self._formats, **self._target_checks)
        self._note_units(X)
        return X, y

    def _note_units(self, X: Any) -> None:
        """Store the column of X with the most unusual unit, for warnings; a kernel matrix has no units."""
        self._odd = None if getattr(self, "kernel", None) == "precomputed" else oddest(X)

    def _examples(self, X: Any) -> Any:
        """Return checked examples for predictions."""
        check_is_fitted(self)
        return checked(self, X, reset=False, **self._formats)

    def _keep(self, results: Sequence[Any], accepted: Sequence[str] = ("OPTIMAL",)) -> None:
        """Set the attributes of the results; warn about a result whose status is not accepted."""
        for result in results:
            if result.status.name not in accepted:
                kind = "relative gap" if self._gap == "gap" else "gap"
                warnings.warn(
                    f"{type(self).__name__} ended as {result.status} with the {kind} "
                    f"{getattr(result, self._gap):.2g}, not tol = {self.tol:g}: {result.reason}. "
                    f"{result.status.remedy}{self._units()}",
                    ConvergenceWarning,
                    stacklevel=4,
                )
        self.results_ = tuple(results)
        self.n_iter_ = max(1, *(result.n_iter for result in results))
        self.gap_ = max(getattr(result, self._gap) for result in results)
        self.objective_, self.lower_bound_ = (
            float(np.sum(np.multiply(self._scale, [getattr(result, name) for result in results])))
            for name in ("objective", "lower_bound")
        )

    def _units(self) -> str:
        """Return a sentence about the column whose unit probably causes slow progress, or an empty string."""
        odd = vars(self).get("_odd")
        if odd is None:
            return ""
        j, mean, deviation = odd
        names = vars(self).get("feature_names_in_")
        column = f"Column {j}" if names is None else f"Column {names[j]!r}"
        return (
            f" {column} of X has the mean {mean:.3g} and the standard deviation {deviation:.3g}, unlike the "
            "others; these units are the likely cause. Use sklearn.preprocessing.StandardScaler."
        )

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in self._unpickled}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._formats.get("accept_sparse"))
        return tags


@estimator
class Weighted(CertifiedEstimator):
    """An estimator with weights of examples."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        sample_weight : array_like of shape (n_samples,), optional
            Weights >= 0, by default 1 for each example.
        """
        self._store(self._fitted(X, y, sample_weight))
        return self


@estimator
class Classification(ClassifierMixin, CertifiedEstimator):
    """A classifier with one problem for each class against the rest.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default None
        Factors of the weights of examples by class, in every problem. "balanced" gives all classes the same
        total weight.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    """

    classes_: Array = field(init=False)

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The class with the largest score is predicted. With two classes the shape is (n_samples,), and
            positive scores predict ``classes_[1]``.
        """
        found = self._predictions(X)
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any) -> Array:
        """Return the classes."""
        return self._classes(self.decision_function(X))

    def _classes(self, scores: Array) -> Array:
        chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _labels(self, y: Array) -> Array:
        """Set ``classes_``, and return the index of each example's class."""
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            found = f"1 class: {self.classes_.tolist()[0]!r}"
            raise InvalidInputError(f"{type(self).__name__} needs at least 2 classes in y, got {found}.")
        return labels

    def _weighed(self, y: Array, labels: Array, weights: Array | None, class_weight: Any) -> Array | None:
        """Return the weights of the examples times class weights; two classes must have positive weights."""
        if class_weight is not None:
            weights = np.ones(len(y)) if weights is None else weights
            if class_weight == "balanced":
                totals = np.bincount(labels, weights)
                factors = weights.sum() / (totals.size * np.where(totals > 0.0, totals, np.inf))
            else:
                factors = compute_class_weight(class_weight, classes=self.classes_, y=y)
            weights = weights * factors[labels]
        if weights is not None and weights.any() and np.count_nonzero(np.bincount(labels, weights)) < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs at least 2 classes, but only one class has a positive weight."
            )
        return weights

    def _against_rest(self, labels: Array) -> list[Array]:
        """Return targets -1 and 1 for each class; with two classes, only for the second one."""
        count = len(self.classes_)
        return [np.where(labels == k, 1.0, -1.0) for k in ((1,) if count == 2 else range(count))]


class Regression(RegressorMixin, CertifiedEstimator):
    """A regressor with one problem."""

    _target_checks = MappingProxyType({"y_numeric": True})


def checked(model: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return the results of scikit-learn's `validate_data`; also refuse masked arrays and dates."""
    for name, value in zip("Xy", (X, *y), strict=False):
        refuse_masked(name, value)
        if getattr(getattr(value, "dtype", None), "kind", "f") in "mMV":
            raise InvalidInputError(f"{name} must contain numbers or labels, got dtype {value.dtype}.")
    return validate_data(model, X, *y, **options)


def uninterrupted(result: Any) -> Any:
    """Return the result; raise `KeyboardInterrupt` again if it ended the run."""
    if result.status.name == "INTERRUPTED":
        raise KeyboardInterrupt
    return result


def ascending(name: str, values: Any, default: Array) -> Array:
    """Return the distinct values, which must be positive, in ascending order."""
    found = default if values is None else np.unique(as_vector(name, values))
    if found.size == 0 or found[0] <= 0.0:
        raise InvalidInputError(f"{name} must be positive numbers, at least one, got {values!r}.")
    return found


def as_weights(sample_weight: Any, m: int) -> Array | None:
    """Return the weights of m examples as a vector; a number applies to all, and None stays None."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        return np.full(m, as_scalar("sample_weight", sample_weight, low=0.0))
    return as_vector("sample_weight", sample_weight, m)
