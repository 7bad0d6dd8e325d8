"""Hypothesis draws the same examples in each run; ``--hypothesis-profile=random`` draws others."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile("repeatable")
