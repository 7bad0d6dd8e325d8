"""The dual as a Lagrangian over trees, for the generic engine."""
