"""See how a method works: a problem of one or two variables, or a section of a larger one, step by step."""

from cutplane.report.explore.bundle_picture import explore, explore_result
from cutplane.report.explore.figure import Explorer

__all__ = ["Explorer", "explore", "explore_result"]
