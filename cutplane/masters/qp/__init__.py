"""Our own simplex QP: the dual of a reduced problem with a diagonal quadratic, by an active-set method."""
