"""Decomposition: risks that are optimal values of other problems."""

from cutplane.decomposition.value_function import ValueFunction

__all__ = ["ValueFunction"]
