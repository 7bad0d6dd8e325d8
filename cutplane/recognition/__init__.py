"""Models of cvxpy, converted to problems of this package."""

from cutplane.recognition.model import RecognisedModel, from_cvxpy

__all__ = ["RecognisedModel", "from_cvxpy"]
