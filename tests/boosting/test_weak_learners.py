"""Weak learners: stumps against all stumps, matrices against numpy, classifiers against their predictions."""

import math
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import LAYOUTS
from scipy import sparse
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from cutplane.boosting.hypothesis_matrix import Column, HypothesisMatrix
from cutplane.boosting.stumps import DecisionStumps, Stump, between, sort_features
from cutplane.boosting.weak_learner import FunctionLearner, SklearnLearner, as_weak_learner, check_values
from cutplane.datasets import planted_dense, planted_text
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.runtime.threads import get_threads, set_threads


@pytest.fixture
def two_threads():
    before = get_threads()
    set_threads(2)
    yield
    set_threads(before)


def all_stumps(X):
    """In the order that decides ties."""
    yield from (Stump(0, -math.inf, 1), Stump(0, -math.inf, -1))
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        for threshold in (values[1:] + values[:-1]) / 2:
            yield from (Stump(j, float(threshold), 1), Stump(j, float(threshold), -1))


def outputs(stump, X):
    return stump.sign * np.where(X[:, stump.feature] > stump.threshold, 1.0, -1.0)


@st.composite
def small_examples(draw):
    """Few values, so that there are ties, duplicates, constant columns; d in 64ths: sums are exact."""
    m, n = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    values = draw(st.lists(st.integers(-2, 2), min_size=m * n, max_size=m * n))
    X = np.array(values, dtype=float).reshape(m, n) + draw(st.sampled_from([0.0, 0.0, 3.0, -3.0]))
    y = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=m, max_size=m)))
    d = np.array(draw(st.lists(st.integers(0, 8), min_size=m, max_size=m)), dtype=float)
    d[draw(st.integers(0, m - 1))] += 64.0 - d.sum()
    return X, y, d / 64.0


@given(small_examples())
@settings(max_examples=25, deadline=None)
def test_the_best_of_all_stumps_in_every_layout(examples):
    X, y, d = examples
    stumps = list(all_stumps(X))
    edges = [d @ (y * outputs(stump, X)) for stump in stumps]
    best = stumps[int(np.argmax(edges))]
    for name, layout in LAYOUTS.items():
        given, before = layout(X), layout(X)
        stump, margins = DecisionStumps().bind(given, y).best(d)
        changed = given != before
        assert not (changed.nnz if sparse.issparse(changed) else changed.any()), name
        assert stump == best, name
        assert margins.dtype == np.float64 and (margins == y * outputs(best, X)).all(), name
        assert (stump.predict(layout(X)) == outputs(best, X)).all(), name


@pytest.mark.parametrize("layout", ["C", "F", "csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("data", ["dense", "rounded", "text"])
def test_no_stump_has_a_larger_edge(data, dtype, layout):
    X, y = planted_text(300, 40, 0.1) if data == "text" else planted_dense(300, 6)
    X = X.toarray() if data == "text" else X
    X = np.round(X, 1) if data == "rounded" else X
    X = X.astype(dtype)
    oracle = DecisionStumps().bind(LAYOUTS[layout](X), y)
    assert oracle.exact
    rng = np.random.default_rng(0)
    wide = X.astype(np.float64)
    signs = np.array([outputs(stump, wide) for stump in all_stumps(wide)])
    for _ in range(5):
        d = rng.dirichlet(np.full(300, 0.3)) * (rng.random(300) < 0.7)
        d /= d.sum()
        stump, margins = oracle.best(d)
        assert abs(d @ margins - (signs @ (d * y)).max()) <= 2e-12
        assert (margins == y * stump.predict(X)).all()


def test_threads_and_layouts_do_not_matter(two_threads):
    X, y = planted_dense(3000, 100)
    X[:, ::3] = np.round(X[:, ::3])
    d = np.random.default_rng(1).dirichlet(np.ones(3000))
    answers = []
    for layout in ("C", "F", "csr", "csc"):
        for threads in (1, 2):
            set_threads(threads)
            answers.append(DecisionStumps().bind(LAYOUTS[layout](X), y).best(d))
    stump, margins = answers[0]
    assert all(other == stump and (values == margins).all() for other, values in answers)


def test_edges_that_differ_by_rounding_are_a_tie():
    """Each feature errs on 60 of 300 examples, others each: sums of 1/300 in different orders."""
    rng = np.random.default_rng(2)
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    X = np.column_stack([np.where(rng.permutation(300) < 60, -y, y) for _ in range(20)])
    for order in (slice(None), slice(None, None, -1), rng.permutation(300)):
        stump, margins = DecisionStumps().bind(X[order], y[order]).best(np.full(300, 1.0 / 300.0))
        assert stump == Stump(0, 0.0, 1) and margins.sum() == 180.0


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1.0, np.nextafter(1.0, 2.0)),
        (np.nextafter(-1.0, -2.0), -1.0),
        (0.0, 5e-324),
        (-5e-324, 0.0),
        (5e-324, 1e-323),
        (-1.7e308, 1.7e308),
        (1.6e308, 1.7e308),
        (-1e-300, 1e300),
    ],
)
def test_thresholds_separate_the_closest_and_the_farthest_numbers(low, high):
    threshold = between(low, high)
    assert low <= threshold < high
    X, y = np.array([[low], [high]]), np.array([-1.0, 1.0])
    stump, margins = DecisionStumps().bind(X, y).best(np.array([0.5, 0.5]))
    assert stump == Stump(0, threshold, 1) and (stump.predict(X) == y).all() and (margins == 1.0).all()


@pytest.mark.parametrize("low", [1.0, 1.0 + 2.0**-23])
def test_float32_neighbours_are_separated(low):
    low = np.float32(low)  # the number half way to the next one, as float32, is the lower or the upper one
    X = np.array([[low], [np.nextafter(low, np.float32(2.0))]])
    y = np.array([1.0, -1.0])
    stump, _ = DecisionStumps().bind(X, y).best(np.array([0.5, 0.5]))
    assert float(X[0, 0]) < stump.threshold < float(X[1, 0]) and stump.sign == -1
    assert (stump.predict(X) == y).all() and (stump.predict(X.astype(np.float64)) == y).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [0.0, 2.0, -2.0])
def test_constant_features_leave_the_constants(layout, value):
    X, y = np.full((3, 2), value), np.array([-1.0, 1.0, -1.0])
    stump, margins = DecisionStumps().bind(LAYOUTS[layout](X), y).best(np.array([0.2, 0.5, 0.3]))
    assert stump == Stump(0, -math.inf, 1) and (margins == y).all()  # both have edge 0
    stump, margins = DecisionStumps().bind(LAYOUTS[layout](X), y).best(np.array([0.3, 0.4, 0.3]))
    assert repr(stump) == "Stump(-1)" and (margins == -y).all()
    assert (stump.predict(np.array([[-np.inf, 0.0], [np.nan, 0.0]])) == -1.0).all()


@pytest.mark.parametrize("layout", ["C", "F", "csr", "csc"])
def test_what_is_kept_is_four_bytes_per_entry_and_no_copy_of_the_data(layout):
    X, y = planted_text(2000, 300, 0.05)
    X = LAYOUTS[layout](X.toarray())
    entries = int((X != 0).sum())
    DecisionStumps().bind(X[:5], y[:5]).best(np.full(5, 0.2))
    tracemalloc.start()
    oracle = DecisionStumps().bind(X, y)
    kept, _ = tracemalloc.get_traced_memory()
    oracle.best(np.full(2000, 1 / 2000))
    tracemalloc.stop()
    assert oracle.features.X is X and oracle.features.codes.nbytes == 4 * entries
    assert kept < 4 * entries + 20_000


def test_bound_learners_survive_pickling():
    X, y = planted_dense(50, 3)
    d = np.full(50, 0.02)
    for learner in (DecisionStumps(), SklearnLearner(GaussianNB())):
        oracle = learner.bind(X, y)
        _, margins = pickle.loads(pickle.dumps(oracle)).best(d)
        assert (margins == oracle.best(d)[1]).all()


@pytest.mark.parametrize("layout", ["C", "F", "float32", "csr", "csc", "csr float32"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_best_column(layout, symmetric):
    rng = np.random.default_rng(0)
    A = rng.integers(-4, 5, size=(40, 12)) / 4.0
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    oracle = HypothesisMatrix(symmetric).bind(LAYOUTS[layout](A), y)
    assert oracle.exact
    for _ in range(20):
        d = rng.dirichlet(np.ones(40))
        hypothesis, margins = oracle.best(d)
        edges = A.T @ (d * y)
        j = int(np.argmax(np.abs(edges) if symmetric else edges))
        assert hypothesis == Column(j, -1 if symmetric and edges[j] < 0 else 1)
        np.testing.assert_array_equal(margins, y * hypothesis.sign * A[:, j])
        np.testing.assert_array_equal(hypothesis.predict(LAYOUTS[layout](A)), hypothesis.sign * A[:, j])


CLASSIFIERS = {
    "tree": DecisionTreeClassifier(max_depth=2),
    "random tree": DecisionTreeClassifier(max_depth=2, max_features=1, splitter="random"),
    "forest": ExtraTreesClassifier(3, max_depth=2),
    "logistic": LogisticRegression(),
    "bayes": GaussianNB(),
}


@pytest.mark.parametrize("confidence_rated", [False, True])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_margins_are_labels_times_predictions(name, confidence_rated):
    X, y = planted_dense(80, 4)
    rng = np.random.default_rng(0)
    oracle = SklearnLearner(CLASSIFIERS[name], confidence_rated).bind(X, y)
    assert not oracle.exact
    for _ in range(3):
        d = rng.dirichlet(np.ones(80)) * (rng.random(80) < 0.5)
        d /= d.sum()
        hypothesis, margins = oracle.best(d)
        values = hypothesis.predict(X)
        assert (margins == y * values).all() and d @ margins > 0.0 and np.abs(margins).max() <= 1.0
        classes = hypothesis.estimator.predict(X)
        assert (np.sign(values) == classes)[values != 0].all()
        assert confidence_rated or (values == classes).all()
        assert (oracle.best(d)[1] == margins).all()


def test_weights_are_one_on_average_and_clones_are_fitted():
    class Recorder(GaussianNB):
        seen = None

        def fit(self, X, y, sample_weight=None):
            Recorder.seen = X, y, sample_weight
            return super().fit(X, y, sample_weight)

    X, y = planted_dense(20, 2)
    d = np.arange(20.0) / 190.0
    estimator = Recorder()
    SklearnLearner(estimator).bind(X, y).best(d)
    assert Recorder.seen[0] is X and (Recorder.seen[1] == y).all()
    np.testing.assert_allclose(Recorder.seen[2], 20 * d)
    assert not hasattr(estimator, "classes_")


class Majority:
    """A classifier that is none of scikit-learn's."""

    def fit(self, X, y, sample_weight):
        self.label = 1 if sample_weight @ y > 0 else -1

    def predict(self, X):
        return [self.label] * len(X)


def test_any_object_like_a_classifier_is_copied():
    learner = as_weak_learner(Majority())
    hypothesis, margins = learner.bind(np.eye(3), np.array([-1.0, 1.0, -1.0])).best(np.array([0.1, 0.2, 0.7]))
    assert margins.tolist() == [1.0, -1.0, 1.0] and hypothesis.predict(np.eye(2)).tolist() == [-1.0, -1.0]
    assert not hasattr(learner.estimator, "label")


def test_random_states_depend_on_the_weights_and_on_the_seed_of_the_user():
    X, y = planted_dense(60, 30)
    d = np.full(60, 1 / 60)
    other = d * np.where(np.arange(60) < 30, 1.01, 0.99)

    def states(estimator, d):
        hypothesis, _ = SklearnLearner(estimator).bind(X, y).best(d)
        parameters = hypothesis.estimator.get_params()
        return [parameters[name] for name in sorted(parameters) if name.endswith("random_state")]

    tree = DecisionTreeClassifier(max_depth=1, max_features=1)
    assert states(tree, d) == states(tree, d) != states(tree, other)
    seeded = DecisionTreeClassifier(max_depth=1, max_features=1, random_state=5)
    assert states(seeded, d) == states(seeded, d) != states(tree, d)
    bagged = states(BaggingClassifier(tree, 3), d)
    assert len(set(bagged)) == 2 and bagged != states(BaggingClassifier(tree, 3, random_state=5), d)
    generator = np.random.RandomState(0)
    assert isinstance(states(DecisionTreeClassifier(random_state=generator), d)[0], np.random.RandomState)
    assert generator.randint(1000) == np.random.RandomState(0).randint(1000)  # only its copy is drawn from
    assert tree.random_state is None and seeded.random_state == 5


def test_a_single_class_works():
    X, y = planted_dense(30, 3)
    d = np.where(y > 0, 1.0, 0.0) / (y > 0).sum()
    for learner in (DecisionStumps(), SklearnLearner(DecisionTreeClassifier(max_depth=2))):
        for labels in (y, np.ones(30), -np.ones(30)):
            hypothesis, margins = learner.bind(X, labels).best(d)
            assert d @ margins == pytest.approx(1.0)
            assert (labels * hypothesis.predict(X) == margins).all()
    for label in (-1.0, 1.0):
        hypothesis, margins = SklearnLearner(GaussianNB(), True).bind(X, np.full(30, label)).best(d)
        assert (margins == 1.0).all() and (hypothesis.predict(X) == label).all()


class Constant:
    """A hypothesis of a user."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Constant({self.value})"

    def predict(self, X):
        return np.array([self.value] * X.shape[0])


def test_who_is_a_weak_learner():
    stumps, function = DecisionStumps(), lambda X, y, d: Constant(0.0)
    assert as_weak_learner(stumps) is stumps
    assert as_weak_learner(HypothesisMatrix()) == HypothesisMatrix()
    assert as_weak_learner(CLASSIFIERS["tree"]) == SklearnLearner(CLASSIFIERS["tree"])
    assert as_weak_learner(function) == FunctionLearner(function)
    assert FunctionLearner(function, exact=True).bind(np.eye(2), np.ones(2)).exact


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.5, r"Constant\(1.5\) has the value 1.5 at example 0; values must be in \[-1, 1\]"),
        (np.nan, r"Constant\(nan\) has the value nan at example 0"),
        ([1.0, -1.0], r"must predict one number per example, 2 of them, got shape \(2, 2\)"),
        ("yes", "must predict numbers, got"),
    ],
)
def test_values_that_cannot_be_used_are_named(value, words):
    oracle = as_weak_learner(lambda X, y, d: Constant(value)).bind(np.eye(2), np.ones(2))
    with pytest.raises(OracleError, match=words):
        oracle.best(np.full(2, 0.5))


def test_values_are_not_clipped():
    values = np.array([1.0 + 1e-12, -1.0])
    assert check_values(Constant(1.0), values, 2) is values
    with pytest.raises(OracleError, match=r"has the value -1\.1 at example 1"):
        check_values(Constant(1.0), [0.0, -1.1], 2)


TWO = np.array([-1.0, 1.0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: as_weak_learner(DecisionStumps), r"the class DecisionStumps; pass an object"),
        (lambda: as_weak_learner(3), "must be an object with bind"),
        (lambda: as_weak_learner(KNeighborsClassifier()), "KNeighborsClassifier.fit has no sample_weight"),
        (lambda: SklearnLearner(3), "int has no predict"),
        (lambda: SklearnLearner(LinearSVC(), True), "LinearSVC has no predict_proba"),
        (lambda: DecisionStumps().bind(np.array([[1.0], [np.nan]]), TWO), r"X\[1, 0\] is nan"),
        (lambda: DecisionStumps().bind(np.eye(2), [0.0, 1.0]), "DecisionStumps needs labels y in {-1, .1}"),
        (lambda: DecisionStumps().bind(np.eye(3), TWO), r"y must have shape \(3,\)"),
        (lambda: DecisionStumps().bind(np.eye(2), TWO).best(np.ones(3)), r"d must have shape \(2,\)"),
        (lambda: sort_features(sparse.csc_array((2**31 + 1, 1))), "at most 2.31"),
        (lambda: HypothesisMatrix().bind(2 * np.eye(2), TWO), "X contains 2.0, but outputs of hypotheses"),
        (lambda: HypothesisMatrix().bind(sparse.csr_array(-2 * np.eye(2)), TWO), "X contains -2.0"),
        (lambda: SklearnLearner(GaussianNB()).bind(np.eye(2), [1, 2]), r"y\[1\] is 2"),
        (lambda: Stump(2, 0.5, 1).predict(np.eye(2)), r"needs column 2: pass all columns"),
        (lambda: Stump(0, 0.5, 1).predict(np.array([[1.0], [np.nan]])), r"X\[1, 0\] is nan, but Stump\(\+1"),
        (lambda: Column(1).predict(np.ones(3)), r"X has shape \(3,\)"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_a_regressor_is_asked_for_values_within_range():
    X, y = np.array([[0.0], [1.0], [10.0]]), np.array([-1.0, 1.0, 1.0])
    oracle = SklearnLearner(LinearRegression()).bind(X, y)
    with pytest.raises(OracleError, match=r"LinearRegression\(\).* has the value 1.* at example 2"):
        oracle.best(np.array([0.5, 0.4, 0.1]))
