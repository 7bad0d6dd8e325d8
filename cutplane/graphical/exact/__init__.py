"""Exact inference: dynamic programming, elimination, branch and bound."""
