"""Primal cutting planes: relaxations of the marginal polytope, and inequalities that cut off solutions."""
