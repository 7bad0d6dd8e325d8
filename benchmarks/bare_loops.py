"""Textbook loops of Kelley, BMRM, proximal and level in plain floats, which `overhead.py` puts beside ours.

Each takes an oracle ``x -> (values, slopes)`` of one or more blocks. It minimises their sum plus
lam/2 ||x||^2, or their sum over the box [-radius, radius]^n, to a relative gap between plain floats. The
masters are our dual quadratic programme, in which the box is rows, and HiGHS. The loops check nothing and
keep every cut.
"""

import math

import highspy
import numpy as np

from cutplane.masters.dual_qp import DualQP
from cutplane.masters.highs import SilentHighs


class Rows:
    """The rows <slope, x> + offset: those of the box first, then a cut of each block for every query."""

    def __init__(self, n, n_blocks, radius):
        walls = 0 if radius is None else 2 * n
        self.count, self.n_blocks, self.radius = walls, n_blocks, radius
        self.all_slopes, self.all_offsets = np.empty((8192, n)), np.empty(8192)
        self.all_ids, self.all_blocks = np.arange(8192), np.full(8192, -1)
        if walls:
            self.all_slopes[:walls] = np.vstack([np.eye(n), -np.eye(n)])
            self.all_offsets[:walls] = -radius
        self.all_blocks[walls:] = np.arange(8192 - walls) % n_blocks
        self.walls = walls
        self.cut_to(walls)

    def cut_to(self, count):
        """Show the first `count` rows, as a master reads them."""
        self.count = count
        self.slopes, self.offsets = self.all_slopes[:count], self.all_offsets[:count]
        self.ids, self.blocks = self.all_ids[:count], self.all_blocks[:count]

    def add(self, x, values, slopes):
        """Append the cuts of all blocks at x."""
        new = slice(self.count, self.count + self.n_blocks)
        self.all_slopes[new], self.all_offsets[new] = slopes, values - slopes @ x
        self.cut_to(new.stop)

    def model(self, x):
        """Return the model of the sum."""
        heights = self.slopes[self.walls :] @ x + self.offsets[self.walls :]
        return float(heights.reshape(-1, self.n_blocks).max(axis=0).sum())


class Quadratic:
    """Minimise model + lam/2 ||x||^2 + weight/2 ||x - centre||^2; bound the problem by the multipliers."""

    def __init__(self, rows, lam):
        self.rows, self.lam, self.dual = rows, lam, DualQP(rows.n_blocks)

    def solve(self, centre, weight, accuracy):
        """Return the minimiser and a lower bound of the whole problem."""
        rows, total = self.rows, self.lam + weight
        middle = (weight / total) * centre
        self.dual.sync(rows)
        heights = rows.slopes @ middle + rows.offsets
        self.dual.maximise(heights, rows.offsets, 1.0 / total, total * accuracy)
        a = self.dual.multipliers
        slope = a @ rows.slopes
        x = middle - slope / total
        if rows.radius is None:
            return x, float(a @ rows.offsets) - float(slope @ slope) / (2 * self.lam)
        np.clip(x, -rows.radius, rows.radius, out=x)
        return x, bound_in_box(a[rows.walls :], rows)


class Linear:
    """Minimise the model over the box in a living HiGHS model."""

    def __init__(self, rows):
        n = rows.all_slopes.shape[1]
        self.rows, self.n, self.seen = rows, n, rows.walls
        self.columns = np.arange(n + rows.n_blocks, dtype=np.int32)
        self.model = SilentHighs()
        for name, value in {"presolve": "off", "solver": "simplex", "simplex_strategy": 1}.items():
            self.model.setOptionValue(name, value)
        ends = np.r_[np.full(n, rows.radius), np.full(rows.n_blocks, highspy.kHighsInf)]
        self.model.addVars(ends.size, -ends, ends)
        self.model.changeColsCost(ends.size, self.columns, np.r_[np.zeros(n), np.ones(rows.n_blocks)])

    def solve(self):
        """Return the minimiser and a lower bound of the whole problem."""
        rows = self.rows
        for k in range(self.seen, rows.count):
            entries = np.r_[-rows.slopes[k], 1.0]
            columns = np.r_[self.columns[: self.n], self.columns[self.n + rows.blocks[k]]]
            self.model.addRow(rows.offsets[k], highspy.kHighsInf, self.n + 1, columns, entries)
        self.seen = rows.count
        self.model.run()
        found = self.model.getSolution()
        return np.array(found.col_value)[: self.n], bound_in_box(np.array(found.row_dual), rows)


def bound_in_box(weights, rows):
    """Return the least value over the box of a convex combination of the cuts of each block."""
    a = np.maximum(weights, 0.0).reshape(-1, rows.n_blocks)
    a = (a / a.sum(axis=0)).ravel()
    slope = a @ rows.slopes[rows.walls :]
    return float(a @ rows.offsets[rows.walls :]) - rows.radius * float(np.abs(slope).sum())


class Loop:
    """What the loops share: the objective with the best point, the cuts and the gap."""

    def __init__(self, oracle, n, n_blocks, lam, radius, tol):
        self.oracle, self.lam, self.tol = oracle, lam, tol
        self.rows = Rows(n, n_blocks, radius)
        self.quadratic = Quadratic(self.rows, lam)
        self.linear = Linear(self.rows) if radius is not None else None
        self.calls, self.iterations = 0, 0
        self.lower, self.upper = -math.inf, math.inf

    def query(self, x):
        """Return the objective, and add the cuts."""
        values, slopes = self.oracle(x)
        self.calls += 1
        self.rows.add(x, values, slopes)
        objective = float(np.sum(values)) + 0.5 * self.lam * float(x @ x)
        self.upper = min(self.upper, objective)
        return objective

    def minimised(self, centre, weight):
        """Return the minimiser of the stabilised model."""
        gap = self.upper - self.lower if self.lower > -math.inf else 1.0
        x, bound = self.quadratic.solve(centre, weight, 1e-2 * max(gap, 1e-12))
        self.lower = max(self.lower, bound)
        return x

    def least(self):
        """Return the minimiser of the model."""
        if self.linear is None:
            return self.minimised(np.zeros(self.rows.slopes.shape[1]), 0.0)
        x, bound = self.linear.solve()
        self.lower = max(self.lower, bound)
        return x

    def height(self, x):
        """Return the model and the regularizer."""
        return self.rows.model(x) + 0.5 * self.lam * float(x @ x)

    def closed(self):
        """Tell whether the gap is."""
        return self.upper - self.lower <= self.tol * abs(self.upper)


def cutting_planes(loop, x):
    """Query where the model is least: BMRM with L2, Kelley in a box."""
    while True:
        loop.query(x)
        x = loop.least()
        loop.iterations += 1
        if loop.closed():
            return


def proximal(loop, x):
    """Kiwiel's proximal bundle (doi:10.1007/BF01585731), with smaller weights for the bound at the end."""
    centre, value, run = x, loop.query(x), 0
    weight = float(np.linalg.norm(loop.rows.slopes[loop.rows.walls :].sum(axis=0)))
    while True:
        loop.iterations += 1
        x = loop.minimised(centre, weight)
        predicted = value - loop.height(x)
        for k in range(1, 13):
            if loop.closed():
                return
            if predicted > 0.5 * loop.tol * abs(value):
                break
            lowest = loop.minimised(centre, weight * 0.1**k)
            if value - loop.height(lowest) > loop.tol * abs(value):
                break
        gap, new = value - loop.lower, loop.query(x)
        fitted = 2.0 * weight * (1.0 - (value - new) / predicted) if predicted > 0.0 else weight
        if new <= value - 0.1 * predicted:
            if value - new >= 0.5 * predicted and run > 0:
                weight = max(0.1 * weight, min(weight, fitted))
            elif run > 3 or predicted < 0.1 * gap:
                weight *= 0.5
            centre, value, run = x, new, max(run + 1, 1)
        else:
            run = min(run - 1, -1)


def level(loop, x):
    """Project on level sets of the model (doi:10.1007/BF01585555) by a search for the prox weight."""
    loop.query(x)
    weight = 1.0
    while True:
        loop.iterations += 1
        loop.least()
        if loop.closed():
            return
        low, high = 0.0, math.inf
        while True:
            found = loop.minimised(x, weight)
            share = (loop.height(found) - loop.lower) / (loop.upper - loop.lower)
            if 0.4 <= share <= 0.6 or high - low < 1e-3 * low:
                break
            low, high = (low, weight) if share > 0.6 else (weight, high)
            weight = math.sqrt(low * high) if low and high < math.inf else weight * (4.0 if low else 0.25)
        x = found
        loop.query(x)
