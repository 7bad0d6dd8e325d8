"""Plots, progress displays and comparisons."""
