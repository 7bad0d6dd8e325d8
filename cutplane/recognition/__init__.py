"""Models of another library, cvxpy, converted to problems of this one."""

from cutplane.recognition.model import RecognisedModel, from_cvxpy

__all__ = ["RecognisedModel", "from_cvxpy"]
