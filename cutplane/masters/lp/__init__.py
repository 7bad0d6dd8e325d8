"""Linear programmes: a living HiGHS model, and Newton's method on a smoothed one."""
