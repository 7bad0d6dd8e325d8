"""Primal cutting planes: relaxations of the marginal polytope, and what cuts their solutions off."""
