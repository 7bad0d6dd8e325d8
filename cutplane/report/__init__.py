"""What people look at: plots, progress displays, comparisons."""
