"""Measures of how well scores tell two labels apart."""
