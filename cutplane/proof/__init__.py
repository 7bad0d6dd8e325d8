"""Bounds proven by the answers of oracles, in floats and in exact arithmetic."""
