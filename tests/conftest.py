"""Hypothesis draws the same examples in each run; ``--hypothesis-profile=random`` draws others.

A process that a shell started in the background ignores Ctrl-C, and so would the tests of it.
"""

import os
import signal

from hypothesis import settings

os.environ.setdefault(
    "CUTPLANE_COMPILE", "always"
)  # answers are the same to the last bit, whatever ran before

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile("repeatable")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
