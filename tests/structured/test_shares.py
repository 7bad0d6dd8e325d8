"""Shares of the examples of a risk: they add up to the whole, in values, in slopes and in what cancels."""

import pickle

import numpy as np
import pytest
from structured_risks import RISKS, M

import cutplane as cut
from cutplane.pieces.capabilities import Capability, offers
from cutplane.structured import ExampleSum, Factors
from cutplane.structured.ascent import ExampleAscent


@pytest.mark.parametrize("name", RISKS)
def test_shares_add_up_to_the_whole(name):
    whole = RISKS[name]()
    rng = np.random.default_rng(1)
    for count in (1, 4, 10_000):
        parts = whole.split(count)
        assert 1 <= len(parts) <= count and (count < 5 or len(parts) == M)
        if "structured" not in name:  # its functions are in no file
            parts = pickle.loads(pickle.dumps(parts))
        assert all(part.exact for part in parts) == whole.exact
        assert sum(part.infima.sum() for part in parts) == whole.infima.sum()
        w = rng.standard_normal(whole.dim)
        (value, slope), answers = whole.oracle(w), [part.oracle(w) for part in parts]
        assert sum(np.sum(answer[0]) for answer in answers) == pytest.approx(float(np.sum(value)), rel=1e-11)
        np.testing.assert_allclose(sum(answer[1] for answer in answers), slope, atol=1e-11)
        if not offers(whole, Capability.IMAGE) and np.isfinite(whole.infima).all():
            sizes = [part.cancelled(w) for part in parts]
            assert sum(sizes) >= whole.cancelled(w) * (1.0 - 1e-9) - 1e-12
        if hasattr(whole, "piece") and offers(whole, Capability.BLOCK_ASCENT):
            quadratic = cut.L2(0.1).quadratic(whole.dim)
            u, *shares = (ExampleAscent(risk, quadratic).multipliers for risk in (whole, *parts))
            cuts = [part.dual_cut(share) for part, share in zip(parts, shares, strict=True)]
            for found, total in zip(zip(*cuts, strict=True), whole.dual_cut(u), strict=True):
                assert np.abs(total).max() > 0.0
                np.testing.assert_allclose(sum(found), total, atol=1e-11)


@pytest.mark.parametrize("name", ["chains", "trees"])
def test_cuts_of_shares_add_up_to_that_of_the_whole(name):
    whole, rng = RISKS[name](), np.random.default_rng(2)
    slope, offset, place = 0.0, 0.0, 0
    u = whole.block_ascent(cut.L2(0.1).quadratic(whole.dim)).multipliers
    u[3 * M :] = rng.integers(3, size=u.size - 3 * M)  # any labelling of each example
    for part in whole.split(5):
        share = part.block_ascent(cut.L2(0.1).quadratic(whole.dim)).multipliers
        size = share.size - 3 * part.n_examples
        share[-size:] = u[3 * M :][place : place + size]
        (more,), (higher,) = part.dual_cut(share)
        slope, offset, place = slope + more, offset + higher, place + size
    (expected,), (height,) = whole.dual_cut(u)
    assert offset == pytest.approx(height, rel=1e-12) and height > 0.0
    np.testing.assert_allclose(slope, expected, atol=1e-11)


def test_the_parts_are_balanced():
    for name in ("chains", "trees"):
        first, *rest = RISKS[name]().split(2)
        assert first.n_examples == 1 and len(rest) == 1  # the largest, and all others


def test_sums_without_shares_have_none():
    class Own(ExampleSum):
        dim = n_examples = 2

        def decode(self, w, i):
            return np.sign(w[i])

        def piece(self, i, y):
            return Factors(np.array([i]), np.array([y])), 0.0

    for risk in (Own(), Own() @ np.eye(2), Own() + cut.LinearObjective(np.ones(2))):
        assert not offers(risk, Capability.SPLIT)
