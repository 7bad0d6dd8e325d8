"""Entropies over a box or a simplex: Newton's method on the dual of the reduced problem."""
