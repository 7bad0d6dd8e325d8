"""Semi-supervised classification by a kernel machine and a graph, for scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from cutplane.estimators.documentation import estimator
from cutplane.estimators.formulation import CLASSIFICATION, as_loss
from cutplane.estimators.kernel import KernelClassification, KernelEstimator, Part
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.graph import deformed, laplacian
from cutplane.kernels.risk import KernelRisk
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.validation import Array, as_count, as_scalar


@estimator
class GraphSVC(KernelClassification, KernelEstimator):
    """A kernel classifier whose function varies slowly along a graph of all examples, with a certificate.

        minimise  1/2 ||f||^2 + graph_weight/2 f'Lf + C sum over labelled i of c_i l(y_i (f(x_i) + b))

    over functions f of the kernel's space, and b, where L is the Laplacian of the graph of nearest
    neighbours: f'Lf is the sum of squared differences over its edges (manifold regularization). Examples of
    the label -1 are unlabelled, as in ``sklearn.semi_supervised``; they help to tell where the classes are.
    With the squared hinge it is the Laplacian SVM, with the squared loss the Laplacian LS-SVM.

    The machine of the labelled examples in the deformed kernel is solved; deforming it takes a dense linear
    system of the size of all examples.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    graph_weight : float, default 1.0
        Weight of the graph; at least 0, where 0 is a `KernelSVC` of the labelled examples.
    n_neighbors : int, default 6
        Each example has edges of weight 1 to so many others, and they to it.
    normalized : bool, default True
        Whether the Laplacian is the normalized one.
    graph : sparse matrix or callable, optional
        The weights of the edges, of shape (n_samples, n_samples), or a function of X that returns them; in
        the place of the nearest neighbours.
    loss : str or ScalarLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", or a loss for targets -1 and 1.

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,)
        The classes of the training examples: those given, and predicted ones for the unlabelled.

    References
    ----------
    M. Belkin, P. Niyogi, V. Sindhwani, "Manifold regularization: a geometric framework for learning from
    labeled and unlabeled examples", JMLR 7, 2006, https://jmlr.org/papers/v7/belkin06a.html.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from cutplane.estimators import GraphSVC
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> some = y.copy()
    >>> some[10:] = -1                                        # ten labels are left
    >>> model = GraphSVC(C=10.0, graph_weight=10.0, gamma=5.0).fit(X, some)
    >>> bool(model.score(X, y) > 0.98), model.gap_ <= 1e-3
    (True, True)
    """

    _: KW_ONLY
    graph_weight: float = 1.0
    n_neighbors: int = 6
    normalized: bool = True
    graph: Any = None
    loss: Any = "hinge"
    transduction_: Array = field(init=False)
    _compares = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit; examples with the label -1 are unlabelled."""
        super().fit(X, y, sample_weight)
        y = np.asarray(y).ravel()
        self.transduction_ = np.where(_is_labelled(y), y, self.predict(X))
        return self

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        if self.n_basis is not None:
            raise InvalidInputError("GraphSVC takes no n_basis: its functions are expanded in all examples.")
        labelled = np.flatnonzero(_is_labelled(y))
        targets, weights = self._targets(y[labelled], None if weights is None else weights[labelled])
        K = kernel.check_examples(X) if kernel.matrix_of(X) is not None else kernel(X)
        weight = as_scalar("graph_weight", self.graph_weight, low=0.0)
        matrix, back = deformed(np.asarray(K, dtype=np.float64), self._laplacian(X), weight, labelled)
        loss, intercept, parts = self._loss(), bool(self.fit_intercept), []
        for target, rows in targets:
            chosen = slice(None) if rows is None else rows
            part = matrix if rows is None else np.ascontiguousarray(matrix[np.ix_(rows, rows)])
            weight = None if weights is None else weights[chosen]
            machine = KernelRisk(part, target, loss, "precomputed", intercept, weight, self.cache_bytes)
            parts.append(Part(machine, np.arange(len(y)), back[:, chosen], machine.squared_norm))
        return parts

    def _laplacian(self, X: Any) -> Any:
        if self.graph is not None:
            weights: Any = self.graph(X) if callable(self.graph) else self.graph
            if weights.shape[0] != X.shape[0]:
                raise InvalidInputError(
                    f"graph must have a row per row of X, {X.shape[0]}, got {weights.shape}."
                )
            return laplacian(weights, bool(self.normalized))
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise InvalidInputError("With a precomputed kernel the neighbours are not known; pass graph.")
        from sklearn.neighbors import kneighbors_graph

        count = min(as_count("n_neighbors", self.n_neighbors), X.shape[0] - 1)
        return laplacian(kneighbors_graph(X, count), bool(self.normalized))

    def _loss(self) -> ScalarLoss:
        return as_loss(self.loss, CLASSIFICATION)


def _is_labelled(y: Array) -> Array:
    """Tell which labels are not -1; labels that are no numbers all are."""
    return y != -1 if y.dtype.kind in "iuf" else np.array([label != -1 for label in y.tolist()])
