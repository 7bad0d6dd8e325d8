"""Graphical models in UAI and WCSP files."""
