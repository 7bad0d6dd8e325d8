"""Travelling salesmen: the subtour bound by a separation oracle, beside a plain loop of linear programmes.

Both solve min <length, x> over 0 <= x <= 1 with two edges at each place, and ask the same oracle for the sets
of places that too few edges leave. The loop adds every row it is given to a HiGHS model and solves it again.
CPU seconds are those of all but the oracle; the bounds are compared with the published ones (D. S. Johnson,
L. A. McGeoch, E. E. Rothberg, "Asymptotic experimental analysis for the Held-Karp traveling salesman bound",
SODA 1996).

Run: python benchmarks/tours.py [names]
"""

import sys
from math import exp, log
from time import process_time

import highspy
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import cutplane as cut
from cutplane.masters.highs import SilentHighs

# Coordinates of TSPLIB (doi:10.1287/ijoc.3.4.376), and the subtour bounds.
PLACES = {
    "eil51": (
        422.5,
        """
37 52, 49 49, 52 64, 20 26, 40 30, 21 47, 17 63, 31 62, 52 33, 51 21, 42 41, 31 32, 5 25, 12 42, 36 16,
52 41, 27 23, 17 33, 13 13, 57 58, 62 42, 42 57, 16 57, 8 52, 7 38, 27 68, 30 48, 43 67, 58 48, 58 27,
37 69, 38 46, 46 10, 61 33, 62 63, 63 69, 32 22, 45 35, 59 15, 5 6, 10 17, 21 10, 5 64, 30 15, 39 10,
32 39, 25 32, 25 55, 48 28, 56 37, 30 40
""",
    ),
    "berlin52": (
        7542.0,
        """
565 575, 25 185, 345 750, 945 685, 845 655, 880 660, 25 230, 525 1000, 580 1175, 650 1130, 1605 620,
1220 580, 1465 200, 1530 5, 845 680, 725 370, 145 665, 415 635, 510 875, 560 365, 300 465, 520 585,
480 415, 835 625, 975 580, 1215 245, 1320 315, 1250 400, 660 180, 410 250, 420 555, 575 665, 1150 1160,
700 580, 685 595, 685 610, 770 610, 795 645, 720 635, 760 650, 475 960, 95 260, 875 920, 700 500,
555 815, 830 485, 1170 65, 830 610, 605 625, 595 360, 1340 725, 1740 245
""",
    ),
    "kroA100": (
        20936.5,
        """
1380 939, 2848 96, 3510 1671, 457 334, 3888 666, 984 965, 2721 1482, 1286 525, 2716 1432, 738 1325,
1251 1832, 2728 1698, 3815 169, 3683 1533, 1247 1945, 123 862, 1234 1946, 252 1240, 611 673, 2576 1676,
928 1700, 53 857, 1807 1711, 274 1420, 2574 946, 178 24, 2678 1825, 1795 962, 3384 1498, 3520 1079,
1256 61, 1424 1728, 3913 192, 3085 1528, 2573 1969, 463 1670, 3875 598, 298 1513, 3479 821, 2542 236,
3955 1743, 1323 280, 3447 1830, 2936 337, 1621 1830, 3373 1646, 1393 1368, 3874 1318, 938 955,
3022 474, 2482 1183, 3854 923, 376 825, 2519 135, 2945 1622, 953 268, 2628 1479, 2097 981, 890 1846,
2139 1806, 2421 1007, 2290 1810, 1115 1052, 2588 302, 327 265, 241 341, 1917 687, 2991 792, 2573 599,
19 674, 3911 1673, 872 1559, 2863 558, 929 1766, 839 620, 3893 102, 2178 1619, 3822 899, 378 1048,
1178 100, 2599 901, 3416 143, 2961 1605, 611 1384, 3113 885, 2597 1830, 2586 1286, 161 906, 1429 134,
742 1025, 1625 1651, 1187 706, 1787 1009, 22 987, 3640 43, 3756 882, 776 392, 1724 1642, 198 1810,
3950 1558
""",
    ),
    "lin105": (
        14370.5,
        """
63 71, 94 71, 142 370, 173 1276, 205 1213, 213 69, 244 69, 276 630, 283 732, 362 69, 394 69, 449 370,
480 1276, 512 1213, 528 157, 583 630, 591 732, 638 654, 638 496, 638 314, 638 142, 669 142, 677 315,
677 496, 677 654, 709 654, 709 496, 709 315, 701 142, 764 220, 811 189, 843 173, 858 370, 890 1276,
921 1213, 992 630, 1000 732, 1197 1276, 1228 1213, 1276 205, 1299 630, 1307 732, 1362 654, 1362 496,
1362 291, 1425 654, 1425 496, 1425 291, 1417 173, 1488 291, 1488 496, 1488 654, 1551 654, 1551 496,
1551 291, 1614 291, 1614 496, 1614 654, 1732 189, 1811 1276, 1843 1213, 1913 630, 1921 732, 2087 370,
2118 1276, 2150 1213, 2189 205, 2220 189, 2220 630, 2228 732, 2244 142, 2276 315, 2276 496, 2276 654,
2315 654, 2315 496, 2315 315, 2331 142, 2346 315, 2346 496, 2346 654, 2362 142, 2402 157, 2402 220,
2480 142, 2496 370, 2528 1276, 2559 1213, 2630 630, 2638 732, 2756 69, 2787 69, 2803 370, 2835 1276,
2866 1213, 2906 69, 2937 69, 2937 630, 2945 732, 3016 1276, 3055 69, 3087 69, 606 220, 1165 370,
1780 370
""",
    ),
}


class Tours:
    """An instance, and the oracle that both ways ask."""

    def __init__(self, places):
        points = np.array([place.split() for place in places.split(",")], dtype=float)
        self.n = len(points)
        self.tail, self.head = np.triu_indices(self.n, 1)
        self.length = np.rint(np.linalg.norm(points[self.tail] - points[self.head], axis=1))
        self.seconds, self.calls = 0.0, 0

    def violated(self, x):
        """Return the rows of edges that leave a set of places with a weight below 2."""
        began = process_time()
        self.calls += 1
        used = x > 1e-9
        graph = coo_array((x[used], (self.tail[used], self.head[used])), shape=(self.n, self.n))
        count, label = connected_components(graph, directed=False)
        if count > 1:
            sides = [label == k for k in range(count)]
        else:
            weights = graph.toarray()
            sides = [side for value, side in cuts_of_phases(weights + weights.T) if value < 2 - 1e-6]
        rows = [1.0 * (side[self.tail] != side[self.head]) for side in sides]
        self.seconds += process_time() - began
        return rows

    def by_engine(self):
        """Return the certified lower bound."""
        ends = 1.0 * (
            np.equal.outer(np.arange(self.n), self.tail) | np.equal.outer(np.arange(self.n), self.head)
        )
        degrees = cut.Box(0, 1, dim=self.tail.size) & cut.Polyhedron(A_eq=ends, b_eq=np.full(self.n, 2.0))
        oracle = cut.separation_oracle(lambda x: [cut.HalfSpace(-row, -2.0) for row in self.violated(x)])
        result = cut.Problem(cut.LinearObjective(self.length), feasible_set=degrees & oracle).solve(tol=1e-6)
        assert result.status == "OPTIMAL", result.reason
        return result.lower_bound

    def by_loop(self):
        """Return the value of the last linear programme."""
        model = SilentHighs()
        model.addVars(self.tail.size, np.zeros(self.tail.size), np.ones(self.tail.size))
        model.changeColsCost(self.tail.size, np.arange(self.tail.size, dtype=np.int32), self.length)
        for place in range(self.n):
            add_row(model, 1.0 * ((self.tail == place) | (self.head == place)), 2.0, 2.0)
        while True:
            model.run()
            rows = self.violated(np.array(model.getSolution().col_value))
            if not rows:
                return model.getObjectiveValue()
            for row in rows:
                add_row(model, row, 2.0, highspy.kHighsInf)


def add_row(model, row, lower, upper):
    """Add lower <= <row, x> <= upper."""
    edges = np.flatnonzero(row).astype(np.int32)
    model.addRow(lower, upper, edges.size, edges, row[edges])


def cuts_of_phases(weights):
    """Yield the cuts of the phases of Stoer and Wagner (doi:10.1145/263867.263872), and one side of each."""
    sides = np.eye(len(weights), dtype=bool)
    while len(weights) > 1:
        last, connection = 0, weights[0].copy()
        connection[0] = -np.inf
        for _ in range(len(weights) - 1):
            before, last = last, connection.argmax()
            value = connection[last]
            connection += weights[last]
            connection[last] = -np.inf
        yield value, sides[last]
        sides[before] |= sides[last]
        weights[before] += weights[last]
        weights[:, before] += weights[:, last]
        weights[before, before] = 0.0
        rest = np.arange(len(weights)) != last
        weights, sides = weights[np.ix_(rest, rest)], sides[rest]


def measure(tours, way):
    """Return the least CPU seconds of three runs without the oracle, its calls, and the bound."""
    found = []
    for _ in range(3):
        tours.seconds, tours.calls, began = 0.0, 0, process_time()
        bound = way()
        found.append((process_time() - began - tours.seconds, tours.calls, bound))
    return min(found)


def main(names):
    print("| instance | bound | published | ours: CPU ms, calls | loop: CPU ms, calls | ratio |")
    print("|---|---|---|---|---|---|")
    ratios = []
    for name in names or PLACES:
        published, places = PLACES[name]
        tours = Tours(places)
        mine, calls, bound = measure(tours, tours.by_engine)
        loop, rounds, value = measure(tours, tours.by_loop)
        assert abs(bound - value) <= 1e-5 * value, (bound, value)
        ratios.append(mine / loop)
        cells = (
            f"{bound:.1f}",
            f"{published:.1f}",
            f"{1e3 * mine:.0f}, {calls}",
            f"{1e3 * loop:.0f}, {rounds}",
        )
        print("|", name, "|", " | ".join(cells), f"| {ratios[-1]:.1f} |", flush=True)
    print(f"geometric mean {exp(sum(map(log, ratios)) / len(ratios)):.1f}, worst {max(ratios):.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
