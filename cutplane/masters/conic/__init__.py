"""What cvxpy's solvers do for us: reduced problems of any kind, and cone programmes with certified bounds."""
