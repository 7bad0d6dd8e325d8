"""Pictures of special problems show what these problems know."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.report.explore import figure


def named(picture, name):
    """Return the layer of this name, and which of its items are there in each frame."""
    (layer,) = (one for one in picture.data["panels"][0]["layers"] if one.get("name") == name)
    born = layer.get("born", [0] * len(layer["items"]))
    died = [end or np.inf for end in layer.get("died", [None] * len(born))]
    frames = range(picture.frames)
    return [[i for i, b, d in zip(layer["items"], born, died, strict=True) if b <= k < d] for k in frames]


def test_items_that_stay_are_held_once():
    layer = figure.per_frame("points", "on", [[[0, 0], [1, 1]], [[1, 1]], [[0, 0], [1, 1]]])
    assert layer["items"] == [[0, 0], [1, 1], [0, 0]]
    assert layer["born"] == [0, 0, 2] and layer["died"] == [1, None, None]


def test_the_triangle_is_cut_off():
    picture = cut.pictures.triangle()
    assert [len(items) for items in named(picture, "cycle inequality")][-1] == 1
    assert len(named(picture, "labellings")[0]) == 4
    bound, energy = (one["values"][-1] for one in picture.data["charts"][0]["series"])
    assert bound == energy == -2  # the three pairs cannot all disagree
    easy = cut.pictures.triangle([-1.0, -1.0, 1.0])
    assert easy.data["charts"][0]["series"][0]["values"][-1] == -2
    assert named(easy, "cycle inequality")[-1] == []


def test_margins_of_the_last_round_are_those_of_the_result():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    problem = cut.boosting.SoftMargin(X, y, nu=6, weak_learner=cut.boosting.DecisionStumps())
    result = problem.solve(cut.boosting.LPBoost(), tol=0.05)
    picture = cut.pictures.margins(result)
    assert picture.frames == len(result.stages)
    margin, share = np.array(named(picture, "margins")[-1][0]).reshape(-1, 2).T
    for m, s in zip(margin, share, strict=True):
        assert np.mean(result.margins <= m + 1e-3) >= s - 1e-3
    soft = picture.data["charts"][0]["series"][0]["values"]
    assert soft[-1] == pytest.approx(result.soft_margin, rel=1e-4)


def test_three_kernels():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 2))
    y = np.sign(X[:, 0] * X[:, 1])
    kernels = [X @ X.T, np.exp(-((X[:, None] - X) ** 2).sum(axis=2)), (1.0 + X @ X.T) ** 2]
    mkl = cut.mkl.MKL(kernels, y)
    picture = cut.pictures.kernel_weights(mkl, cut.Kelley(), tol=1e-2)
    texts = [one for one in picture.data["panels"][0]["layers"] if one["type"] == "text"]
    assert [item[2] for item in texts[0]["items"]] == ["kernel 0", "kernel 1", "kernel 2"]
    (edge,) = (one["items"][0] for one in picture.data["panels"][0]["layers"] if one["type"] == "outside")
    x, z = np.array(edge).reshape(-1, 2).T
    size = 0.5 * abs(x @ np.roll(z, -1) - z @ np.roll(x, -1))
    assert size == pytest.approx(np.sqrt(3.0) / 2.0, rel=0.01)  # of a triangle with sides of length sqrt(2)
    by_default = cut.pictures.kernel_weights(mkl, tol=1e-2).data["panels"][0]["title"]
    assert by_default == mkl.solve(tol=1e-2).method
    with pytest.raises(cut.InvalidInputError, match="three kernels"):
        cut.pictures.kernel_weights(cut.mkl.MKL(kernels[:2], y))


def test_a_word_is_decoded_with_its_loss():
    rng = np.random.default_rng(2)
    labels = [np.array([0, 1, 2, 0]), np.array([2, 0, 1])]
    X = [np.eye(3)[s] + 0.1 * rng.standard_normal((len(s), 3)) for s in labels]
    risk = cut.structured.ChainRisk(X, labels)
    picture = cut.pictures.viterbi(risk, cut.L2(1e-3), method=cut.BMRM(), max_iter=30, tol=1e-2)
    (truth,) = named(picture, "truth")[0]
    assert truth[1::2] == labels[0].tolist()
    first = np.round(named(picture, "most violating labelling")[0][0][1::2])
    assert (first != labels[0]).all()  # at w = 0 the loss alone decides
    assert (np.round(named(picture, "decoded labelling")[-1][0][1::2]) == labels[0]).all()


def test_frustrated_squares():
    pull, push = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    across = np.array([[pull, pull], [push, pull]])
    model = cut.graphical.grid(np.zeros((2, 3, 2)), across, np.array([[pull, pull, pull]]))
    picture = cut.pictures.labelling(model, (2, 3), method="dual")
    assert len(named(picture, "frustrated squares")[0]) == 1
    assert len(named(picture, "edges not satisfied")[-1]) == round(model.brute_force()[1])
    assert len(named(picture, "repelling edges")[0]) == 1
    with pytest.raises(cut.InvalidInputError, match="binary variables"):
        cut.pictures.labelling(model, (3, 3))
