"""Linear support vector machines, in the scaling of scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from cutplane.estimators.classification import LinearClassification
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import CLASSIFICATION, Loss, as_choice
from cutplane.estimators.linear import WarmStarted
from cutplane.estimators.regression import LinearRegression
from cutplane.exceptions import InvalidInputError
from cutplane.losses.multiclass import MulticlassHinge
from cutplane.losses.regression import EpsilonInsensitive, SquaredEpsilonInsensitive
from cutplane.pieces.validation import as_scalar


@dataclass(eq=False, repr=False)
class SupportVectorMachine(WarmStarted):
    """The scaling of a support vector machine.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    penalty : {"l2", "l1"}, default "l2"
        "l1" replaces ``1/2 ||w||^2`` by ``||w||_1``.
    regularize_intercept : bool, default False
        Whether the penalty includes b. scikit-learn's `LinearSVC` and `LinearSVR` do so, its `SVC` and `SVR`
        with ``kernel="linear"`` do not.
    """

    C: float = 1.0
    _: KW_ONLY
    penalty: str = "l2"

    def _check_penalty(self) -> None:
        as_choice("penalty", self.penalty, ("l2", "l1"))

    def _weight(self, total: float) -> tuple[float, float]:
        """Return lam = 1 / (C total), and the factor C total of the objective."""
        factor = as_scalar("C", self.C, low=0.0, low_open=True) * total
        return 1.0 / factor if factor > 0.0 else 1.0, factor


@documented
@dataclass(eq=False, repr=False)
class LinearSVC(SupportVectorMachine, LinearClassification):
    """The linear support vector classifier, with a certificate.

        minimise  1/2 ||w||^2 + C sum_i c_i max(0, 1 - y_i (<w, x_i> + b))

    It is solved as ``lam/2 ||w||^2`` plus the weighted mean loss, lam = 1 / (C sum_i c_i), whose numbers do
    not grow with the data.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge"}, default "hinge"
        The second squares the maximum.
    multi_class : {"ovr", "crammer_singer"}, default "ovr"
        With more than two classes: one problem for each class against the rest, or one joint problem with the
        loss max_j (1[j != y] + s_j) - s_y of the scores s, for which `loss` must be "hinge".

    References
    ----------
    C. Cortes, V. Vapnik, "Support-vector networks", Machine Learning 20, 1995, doi:10.1007/BF00994018.

    Examples
    --------
    >>> from cutplane.estimators import LinearSVC
    >>> model = LinearSVC(C=10.0, tol=1e-9).fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> model.coef_.round(6).tolist(), model.intercept_.round(6).tolist(), round(model.objective_, 6)
    ([[1.0]], [-2.0], 0.5)
    """

    _: KW_ONLY
    loss: str = "hinge"
    multi_class: str = "ovr"

    def _loss(self) -> Loss:
        self._check_penalty()
        name = as_choice("loss", self.loss, ("hinge", "squared_hinge"))
        if as_choice("multi_class", self.multi_class, ("ovr", "crammer_singer")) == "ovr":
            return CLASSIFICATION[name]
        if name != "hinge":
            raise InvalidInputError(
                f"multi_class='crammer_singer' has a loss of its own: use loss='hinge', got {name!r}."
            )
        return MulticlassHinge()


@documented
@dataclass(eq=False, repr=False)
class LinearSVR(SupportVectorMachine, LinearRegression):
    """Linear support vector regression, with a certificate.

        minimise  1/2 ||w||^2 + C sum_i c_i max(0, |<w, x_i> + b - y_i| - epsilon)

    Parameters
    ----------
    epsilon : float, default 0.0
        Half the width of the tube without loss, in the unit of y; at least 0.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default "epsilon_insensitive"
        The second squares the maximum.

    References
    ----------
    A. J. Smola, B. Schölkopf, "A tutorial on support vector regression", Statistics and Computing 14, 2004,
    doi:10.1023/B:STCO.0000035301.49549.88.

    Examples
    --------
    >>> from cutplane.estimators import LinearSVR
    >>> model = LinearSVR(C=10.0, epsilon=0.5, tol=1e-9).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0])
    >>> model.coef_.round(6).tolist(), round(model.intercept_, 6), round(model.objective_, 6)
    ([1.5], 0.5, 1.125)
    """

    _: KW_ONLY
    epsilon: float = 0.0
    loss: str = "epsilon_insensitive"

    def _loss(self) -> Loss:
        self._check_penalty()
        losses = {
            "epsilon_insensitive": EpsilonInsensitive,
            "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
        }
        return losses[as_choice("loss", self.loss, losses)](self.epsilon)
