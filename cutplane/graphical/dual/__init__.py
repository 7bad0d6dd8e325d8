"""Dual cutting planes: the choice of clusters that are added to a reparametrised model."""
