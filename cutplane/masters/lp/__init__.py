"""Linear programmes in living HiGHS models."""
