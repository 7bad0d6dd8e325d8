"""The engine: one loop, the bundle, both bounds."""
