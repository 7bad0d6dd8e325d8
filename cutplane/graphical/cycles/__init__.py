"""Violated cycle inequalities, found by shortest paths."""
