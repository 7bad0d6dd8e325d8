"""Dual cutting planes: which clusters to add to a reparametrised model."""
