"""Every estimator keeps scikit-learn's contract and the package's promises, by laws over one table."""

import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane import estimators as E
from cutplane.engine.driver import Driver
from cutplane.exceptions import InvalidInputError
from cutplane.kernels import Gaussian, Laplacian, Linear
from cutplane.losses import Huber, Logistic
from cutplane.regularizers import L1, L2

X3, Y3 = load_iris(return_X_y=True)
X3, Y3 = StandardScaler().fit_transform(X3), load_iris().target_names[Y3]
X2, Y2 = X3[50:], Y3[50:]
XR, YR = (array[:150] for array in load_diabetes(return_X_y=True))
XR, YR = StandardScaler().fit_transform(XR), YR / YR.std()
BITS = (X3[:, :2] > 0.0).astype(int)
SMALL = [Linear(), Gaussian(1.0)]
NAMES = np.array(["noun", "verb", "other"])


def sentences(m=60, seed=0):
    """Return noisy indicators of classes that follow one another in a circle."""
    rng = np.random.default_rng(seed)
    Y = [(rng.integers(3) + np.arange(rng.integers(2, 7))) % 3 for _ in range(m)]
    return [np.eye(3)[y] + 0.7 * rng.standard_normal((len(y), 3)) for y in Y], [NAMES[y] for y in Y]


def weights_differ(reason):
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


GAP = weights_differ(
    "Weights and repetitions make the same problem, but its solutions agree up to the certified gap, not to "
    "1e-7; test_weights_are_repetitions compares objectives."
)
GRAPH = weights_differ(
    "Unlabelled and weighted examples are vertices of the graph: removing them changes it."
)
GRAPH["check_classifiers_classes"] = "The label -1 means unlabelled, as in sklearn.semi_supervised."
DRAWN = weights_differ(
    "The candidates are drawn from the examples: another list of them gives another basis."
)
NU = GAP | {"check_class_weight_classifiers": "Weights give a class no share of nu."}

CHECKED = {E.LinearSVC(): GAP}
INTERFACE = {
    E.LinearSVR(): {},
    E.LinearClassifier("softmax"): {},  # weights and repetitions give the same cuts, so the same iterates
    E.LinearRegressor(): {},
    E.LinearSVC(multi_class="crammer_singer", tol=1e-6): {},
    E.LinearClassifierCV("hinge", alphas=[0.1], cv=2, tol=1e-2): GAP,
    E.LinearRegressorCV("absolute", alphas=[0.1], cv=2, tol=1e-9): {},
    E.LinearRanker(): {},
    E.MeasureClassifier(): {},
    E.KernelSVC(): GAP,
    E.KernelSVC(multi_class="ovo", n_basis=20): GAP,
    E.KernelSVR(): GAP,
    E.KernelLogisticRegression(): GAP,
    E.KernelNuSVC(0.05): NU,
    E.KernelNuSVR(): GAP,
    E.KernelOneClass(): GAP,
    E.GraphSVC(n_neighbors=3): GRAPH,
    E.KernelOrdinalClassifier(): GAP,
    E.SparseKernelClassifier(n_basis=5, random_state=0): DRAWN,
    E.SparseKernelRegressor(n_basis=5, random_state=0): DRAWN,
    E.MKLClassifier(tol=0.01): {},
    E.MKLRegressor(tol=0.01): {},
    E.PolynomialMKLRegressor(degree=2, max_iter=2000, tol=0.5): {},
    E.LPBoostClassifier(): {},
    E.LPBoostClassifier(DecisionTreeClassifier(max_depth=2), nu=0.3): {},
}
SLOW = {
    E.MKLClassifier("single-feature", C=10.0, loss="squared_hinge", tol=0.1): {},
    E.MKLClassifier(norm=2.0, tol=0.1): {},
    E.MKLClassifierCV(SMALL, Cs=[1.0, 10.0], cv=2, tol=0.1): {},
    E.MKLRegressor(loss="squared", norm=2.0, tol=0.1): {},
    E.MKLRegressorCV(SMALL, Cs=[1.0, 10.0], cv=2, tol=0.1): {},
    E.ERLPBoostClassifier(tol=0.05): {},
    E.MLPBoostClassifier(tol=0.05): {},
}
CHAINS = [
    E.ChainSSVM(),
    E.ChainSSVM(loss="share"),
    E.ChainCRF(),
    E.ChainSSVMCV(alphas=[0.1], cv=2),
    E.ChainCRFCV(alphas=[0.1], cv=2),
]
TABLE = [*CHECKED, *INTERFACE, *SLOW, E.MultilabelSVM(), *CHAINS]


def expected_failures(model):
    every = CHECKED | INTERFACE | SLOW
    return next(reasons for other, reasons in every.items() if repr(other) == repr(model))


@parametrize_with_checks(list(CHECKED), expected_failed_checks=expected_failures, xfail_strict=False)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_checks(list(INTERFACE), legacy=False)
def test_scikit_learn_interface(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([*INTERFACE, *SLOW], expected_failed_checks=expected_failures, xfail_strict=False)
def test_scikit_learn_contract_of_variants(estimator, check):
    check(estimator)


def data_for(model, m=None):
    """Return examples and targets of the estimator's kind."""
    if isinstance(model, E.ChainSSVM | E.ChainCRF):
        return sentences(30)
    if is_regressor(model):
        return XR[:m], YR[:m]
    if isinstance(model, E.MeasureClassifier):
        return X2[:m], Y2[:m]
    targets = BITS if isinstance(model, E.MultilabelSVM) else np.arange(150) % 4
    labels = targets if isinstance(model, E.MultilabelSVM | E.LinearRanker) else Y3
    return X3[:m], labels[:m]


def equal(found, wanted):
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def sections_of(text):
    parts = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", E.__all__)
def test_every_parameter_argument_and_result_is_documented_once_in_order(name):
    kind = getattr(E, name)
    sections = sections_of(kind.__doc__)
    documented = re.findall(r"^(\w+) :", sections["Parameters"], flags=re.MULTILINE)
    assert documented == list(inspect.signature(kind).parameters)
    assert [*sections][:2] == ["Parameters", "Attributes"]
    assert [*sections][-1] == "Examples", f"the docstring of {name} has no section Examples at its end"
    for method in (kind.fit, kind.predict):
        sections = sections_of(method.__doc__)
        described = re.findall(r"^\**(\w+)(?: :|$)", sections["Parameters"], flags=re.MULTILINE)
        assert described == list(inspect.signature(method).parameters)[1:]
        assert "Returns" in sections and ("Raises" in sections or method is kind.predict)


@pytest.mark.parametrize("name", ["LinearClassifierCV", "MKLRegressorCV", "ChainCRFCV", "LPBoostClassifier"])
def test_a_docstring_has_the_formula_and_the_paragraphs_of_its_bases_once(name):
    text = inspect.cleandoc(getattr(E, name).__doc__)
    assert len(re.findall(r"^    (min|max)imise  ", text, flags=re.MULTILINE)) == 1
    assert len(re.findall(r"The\s+final\s+fit", text)) == name.endswith("CV")


def test_only_estimators_need_scikit_learn():
    code = """if True:
        import sys
        sys.modules["sklearn"] = None
        import cutplane
        try:
            import cutplane.estimators
        except cutplane.MissingExtraError as error:
            print(error)
    """
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == 'sklearn is not installed; install it with: pip install "cutplane[sklearn]"\n'


@pytest.mark.parametrize("model", TABLE, ids=lambda model: repr(model)[:40])
def test_pickles_predict_alike_and_exclude_the_results(model):
    X, y = data_for(model)
    model = clone(model).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert equal(again.predict(X), model.predict(X)) and again.objective_ == model.objective_
    assert not hasattr(again, "results_") and hasattr(model, "results_")
    assert model.lower_bound_ <= model.objective_ * (1.0 + 1e-9) and model.n_iter_ >= 1
    assert model.gap_ <= model.tol or isinstance(model, E.LPBoostClassifier)  # relative to its learner


@pytest.mark.parametrize("model", [E.LinearSVC(), E.LinearSVR(), E.LinearClassifier("softmax")])
def test_pickles_of_linear_estimators_are_small(model):
    X, y = (np.repeat(array, 20, axis=0) for array in data_for(model))
    model = clone(model).fit(X, y)
    assert model.results_[0].certificate.problem.risk.X is X
    assert len(pickle.dumps(model)) < 0.1 * X.nbytes


SPARSE = [E.LinearSVC(tol=1e-6), E.KernelSVC(tol=1e-9), E.KernelOrdinalClassifier(tol=1e-6),
          E.MultilabelSVM(), E.LPBoostClassifier(nu=0.2), E.MKLClassifier(SMALL), *CHAINS[:3]]  # fmt: skip


@pytest.mark.parametrize("model", SPARSE, ids=lambda model: repr(model)[:40])
def test_sparse_examples_are_dense_ones(model):
    X, y = data_for(model)
    rows = [[sparse.csr_array(x) for x in X]] if isinstance(X, list) else [sparse.csr_matrix(X)]
    found, wanted = clone(model).fit(*rows, y), clone(model).fit(X, y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=2e-3)
    assert np.mean(np.hstack(found.predict(*rows)) == np.hstack(wanted.predict(X))) > 0.98


@pytest.mark.parametrize("model", [E.LinearSVC(), E.MKLClassifier()])
def test_column_names(model):
    names = load_iris().feature_names
    frame = pd.DataFrame(X3, columns=names)
    model = clone(model).fit(frame, Y3)
    assert model.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


OPEN = [
    (E.LinearSVR(C=10.0, tol=1e-6, max_iter=1), "Raise max_iter"),
    (E.LinearSVR(C=10.0, tol=1e-6, time_limit=1e-9), "Raise time_limit"),
    (E.MKLClassifier("single-feature", C=10.0, max_iter=1, tol=1e-8), "with the relative gap"),
    (E.MKLRegressor("single-feature", time_limit=1e-9, tol=1e-8), "with the relative gap"),
    (E.PolynomialMKLRegressor(max_iter=2, tol=1e-6), "with the relative gap"),
    (E.ChainSSVM(tol=1e-9, max_iter=2), "MAX_ITER"),
]


@pytest.mark.parametrize(("model", "words"), OPEN)
def test_an_open_gap_is_a_warning(model, words):
    with pytest.warns(ConvergenceWarning, match=words):
        model.fit(*data_for(model))
    assert model.gap_ > model.tol and model.lower_bound_ <= model.objective_


INTERRUPTED = [
    E.LinearSVC(tol=1e-9), E.KernelSVC(tol=1e-9), E.MKLClassifier(SMALL, tol=1e-9), E.ChainCRF(tol=1e-9),
    E.PolynomialMKLRegressor(degree=2), E.LPBoostClassifier(nu=0.02, validation_fraction=0.3),
]  # fmt: skip


@pytest.mark.parametrize("model", INTERRUPTED)
def test_an_interrupt_ends_the_fit(model, monkeypatch):
    run = Driver.run
    monkeypatch.setattr(Driver, "run", lambda self, *_, **options: run(self, lambda state: True))
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(*data_for(model))


@pytest.mark.parametrize("model", [E.LinearSVC(verbose=1), E.MKLRegressor("single-feature", verbose=1)])
def test_a_line_per_iteration(model, capsys):
    model.fit(*data_for(model))
    assert "lower" in capsys.readouterr().out


CHOSEN = [
    (E.LinearClassifierCV("logistic", scoring="neg_log_loss", tol=1e-6),
     E.LinearClassifier("logistic", tol=1e-6), "alpha", [1e-3, 1e-1, 1e1], 1e-3),
    (E.MKLClassifierCV(SMALL), E.MKLClassifier(SMALL), "C", [10.0, 0.01, 1.0], 0.03),
    (E.MKLRegressorCV(SMALL), E.MKLRegressor(SMALL), "C", [10.0, 0.01, 1.0], 0.03),
    (E.ChainSSVMCV(tol=1e-4), E.ChainSSVM(tol=1e-4), "alpha", [1e-2, 1.0, 100.0], 0.05),
    (E.ChainCRFCV(tol=1e-4), E.ChainCRF(tol=1e-4), "alpha", [1e-2, 1.0, 100.0], 0.05),
]  # fmt: skip


@pytest.mark.parametrize(("model", "plain", "name", "values", "atol"), CHOSEN)
def test_cross_validation_is_a_grid_search_along_paths(model, plain, name, values, atol):
    X, y = data_for(model)
    folds = KFold(3, shuffle=True, random_state=0)
    model = clone(model).set_params(cv=folds, **{f"{name}s": values}).fit(X, y)
    path = sorted(values, reverse=name == "alpha")
    search = GridSearchCV(plain, {name: path}, cv=folds, scoring=model.scoring).fit(X, y)
    scores = np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(3)]).T
    assert getattr(model, f"{name}s_").tolist() == path
    np.testing.assert_allclose(model.scores_, scores, atol=atol)
    best = path[int(np.argmax(model.scores_.mean(axis=1)))]
    assert getattr(model, f"{name}_") == best
    alone = clone(plain).set_params(**{name: best}).fit(X, y)
    assert model.objective_ == pytest.approx(alone.objective_, rel=2e-3)
    assert all(result.certificate.verify().valid for result in model.results_)


@pytest.mark.parametrize("kind", [E.LinearClassifierCV, E.LinearRegressorCV, E.MKLClassifierCV])
def test_folds_from_a_generator_are_the_folds_of_its_splitter(kind):
    X, y = X3[:, :2], np.where(X3[:, 0] > 0.0, 1, -1)
    given = kind(cv=KFold(3, shuffle=True, random_state=0).split(X)).fit(X, y).scores_
    wanted = kind(cv=KFold(3, shuffle=True, random_state=0)).fit(X, y).scores_
    np.testing.assert_array_equal(given, wanted)


SEARCHES = [
    (E.LinearClassifier(alpha=1e-2), {"loss": ["hinge", "logistic"], "penalty": ["l2", L1(0.5)]}),
    (E.MKLClassifier(tol=1e-2), {"kernels": ["default", SMALL], "norm": [1.0, 2.0]}),
    (E.LPBoostClassifier(), {"nu": [0.1, 0.3]}),
    (E.MultilabelSVM(), {"pairs": ["all", ()]}),
]


@pytest.mark.parametrize(("model", "grid"), SEARCHES)
def test_grid_search_in_a_pipeline(model, grid):
    name = type(model).__name__.lower()
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(pipeline, {f"{name}__{key}": value for key, value in grid.items()}, cv=2)
    assert search.fit(*data_for(model)).best_score_ > 0.9
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


WITHOUT_WEIGHTS = [
    getattr(E, name)
    for name in E.__all__
    if [*inspect.signature(getattr(E, name).fit).parameters][-1:] == ["unsupported"]
]


@pytest.mark.parametrize("kind", WITHOUT_WEIGHTS)
def test_arguments_that_an_estimator_does_not_take_are_refused_by_name(kind):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    words = rf"{kind.__name__}\.fit takes only X and y, not sample_weight; repeat"
    with pytest.raises(InvalidInputError, match=words):
        kind().fit(X, y, sample_weight=np.ones(4))
    with pytest.raises(InvalidInputError, match="not groups"):
        kind().fit(X, y, groups=y)
    assert {E.LPBoostClassifier, E.MKLClassifier, E.MeasureClassifier} <= set(WITHOUT_WEIGHTS)


ERRORS = [
    (E.LinearSVC(C=0.0), r"C must be in \(0, inf\), got 0"),
    (E.LinearClassifier(alpha=-1.0), r"alpha must be in \(0, inf\), got -1"),
    (E.LinearClassifier("hinges"), "loss must be one of .*'hinge'.* got 'hinges'"),
    (E.LinearRegressor(Huber), r"did you mean Huber\(\)\?"),
    (E.LinearRegressor("softmax"), "loss must be one of"),
    (E.LinearSVC(loss="logistic"), r"loss must be one of \['hinge', 'squared_hinge'\]"),
    (E.LinearSVC(loss="squared_hinge", multi_class="crammer_singer"), "loss='hinge'"),
    (E.LinearSVC(multi_class="ovo"), "multi_class must be one of"),
    (E.LinearClassifier(penalty="l3"), "penalty must be one of .* got 'l3'"),
    (E.LinearSVR(penalty="elasticnet"), "penalty must be one of"),
    (E.LinearSVR(epsilon=-1.0), "epsilon must be in"),
    (E.LinearRegressor(penalty="elasticnet", l1_ratio=2.0), "l1_ratio must be in"),
    (E.LinearRegressor(penalty=L2(weights=np.ones(3))), "has dimension 3, but dimension 10"),
    (E.LinearSVC(class_weight="even"), "class_weight"),
    (E.LinearRegressorCV(alphas=[0.1, 0.0]), "alphas must be positive"),
    (E.LinearRegressorCV(alphas=[]), "alphas is empty"),
    (E.KernelSVC(kernel="gaussian"), "kernel must be one of"),
    (E.KernelSVC(gamma="wide"), "gamma must be"),
    (E.KernelSVC(gamma=-1.0), "gamma"),
    (E.KernelSVC(C=0.0), "C must be"),
    (E.KernelSVC(C=[1.0, -1.0]), "C must be positive numbers"),
    (E.KernelSVC(kernel="linear", gamma=[1.0, 2.0]), "has no gamma; pass"),
    (E.KernelSVC(loss="log"), "loss must be one of"),
    (E.KernelSVC(multi_class="all"), "multi_class must be one of"),
    (E.KernelSVC(n_basis=0), "n_basis"),
    (E.KernelSVC(probability="platt"), "probability must be one of"),
    (E.KernelSVC(multi_class="joint", loss="squared_hinge"), 'needs loss="hinge"'),
    (E.KernelNuSVC(0.1, multi_class="joint"), "multi_class must be one of"),
    (E.KernelNuSVC(0.9, multi_class="ovr"), r"nu = 0.9 is infeasible.*at most 0.66"),
    (E.KernelOrdinalClassifier(thresholds="none"), "thresholds"),
    (E.KernelOrdinalClassifier(fit_intercept=False), "fit_intercept"),
    (E.GraphSVC([1.0, 2.0]), "a single C and a single gamma"),
    (E.GraphSVC(graph_weight=-1.0), "graph_weight"),
    (E.GraphSVC(graph=np.eye(3)), "graph must have one row per row of X"),
    (E.SparseKernelClassifier(n_basis=0), "n_basis"),
    (E.SparseKernelClassifier(n_candidates=0), "n_candidates"),
    (E.SparseKernelClassifier(gamma=[1.0]), "a single C and a single gamma"),
    (E.SparseKernelClassifier(loss="l"), "loss"),
    (E.MKLClassifier("precomputed"), "cutplane.mkl.MKL"),
    (E.MKLClassifier([np.eye(150)]), "kernels"),
    (E.MKLClassifier([]), "kernels is empty"),
    (E.MKLClassifier([Linear(features=9)]), "column 9"),
    (E.MKLClassifier(C=0.0), "C"),
    (E.MKLClassifier(norm=0.5), "norm"),
    (E.MKLClassifier(norm=2.0, entropy=1.0), "entropy"),
    (E.MKLClassifier(loss="logistic"), "loss must be one of"),
    (E.MKLClassifier(loss=Logistic()), "Logistic"),
    (E.MKLClassifier(normalize="unit"), "normalize"),
    (E.MKLClassifier(method="fast"), "method"),
    (E.MKLClassifierCV(Cs=[]), "Cs"),
    (E.MKLClassifierCV(Cs=[1.0, -1.0]), "Cs"),
    (E.MKLRegressor(epsilon=-1.0), "epsilon"),
    (E.PolynomialMKLRegressor(max_iter=0), "max_iter"),
    (E.PolynomialMKLRegressor(sampling="all"), "sampling"),
    (E.PolynomialMKLRegressor(rho=[1.0]), "rho"),
    (E.LPBoostClassifier(nu=0.0), "nu"),
    (E.LPBoostClassifier(nu=2.0), "nu"),
    (E.LPBoostClassifier(validation_fraction=1.0), "validation_fraction"),
    (E.LPBoostClassifier(max_iter=0), "max_iter"),
    (E.MultilabelSVM(pairs=[[0, 3]]), "pairs"),
    (E.MultilabelSVM(loss="zero"), "loss must be one of"),
    (E.MultilabelSVM(alpha=-1.0), "alpha"),
    (E.ChainSSVM(alpha=0.0), "alpha"),
    (E.ChainSSVM(loss="zero"), "loss must be one of"),
    (E.ChainCRFCV(alphas=[0.0]), "alphas must be positive"),
]


@pytest.mark.parametrize(("model", "message"), ERRORS, ids=lambda part: repr(part)[:50])
def test_wrong_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data_for(model))


DATA_ERRORS = [
    (E.LinearSVC(), X2, ["a"] * 100, "needs at least 2 classes in y, got 1 class: .*'a'"),
    (E.MKLClassifier(), X3, np.zeros(150), "1 class"),
    (E.GraphSVC(), X3, np.where(Y3 == "setosa", 0, -1), "2 classes"),
    (E.GraphSVC(kernel="precomputed"), X3 @ X3.T, Y3, "pass graph"),
    (E.LinearSVC(), XR, YR + 0.5, "Unknown label type"),
    (E.LinearRegressor("poisson"), XR, -YR, "Poisson needs counts y >= 0"),
    (E.MKLClassifier([Laplacian(1.0)]), sparse.csr_array(X2), Y2, "laplacian"),
    (E.ChainCRF(), *(part[0] for part in sentences(4)), "one entry per sequence"),
    (E.ChainCRF(), sentences(4)[0], sentences(4)[1][:2], "one label for each row"),
]


@pytest.mark.parametrize(("model", "X", "y", "message"), DATA_ERRORS)
def test_wrong_data_are_named(model, X, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("weights", [-np.ones(100), np.ones(99), np.zeros(100), np.full(100, np.nan), -1.0])
def test_wrong_weights(weights):
    with pytest.raises(InvalidInputError, match="sample_weight"):
        E.LinearSVC().fit(X2, Y2, sample_weight=weights)


def test_a_class_without_weight_is_no_class():
    with pytest.raises(InvalidInputError, match="only one class has a positive weight"):
        E.KernelSVC().fit(X2, Y2, sample_weight=1.0 * (Y2 == Y2[0]))
