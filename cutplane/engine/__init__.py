"""The solve: its loop, the bundle of cuts, and both bounds."""
