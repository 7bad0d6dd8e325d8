"""Shares of the examples of a risk: they add up to the whole, in values, in slopes and in what cancels."""

import pickle

import numpy as np
import pytest
from structured_risks import RISKS, M

import cutplane as cut
from cutplane.pieces.capabilities import Capability, offers
from cutplane.structured import ExampleSum, Factors


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
        if offers(whole, Capability.BLOCK_ASCENT):
            quadratic = cut.L2(0.1).quadratic(whole.dim)
            cuts, expected = (
                [risk.dual_cut(risk.block_ascent(quadratic).multipliers) for risk in risks]
                for risks in (parts, [whole])
            )
            for found, (total,) in zip(zip(*cuts, strict=True), zip(*expected, strict=True), strict=True):
                np.testing.assert_allclose(sum(found), total, atol=1e-11)


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
