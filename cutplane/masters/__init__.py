"""Masters: who solves the reduced problem."""
