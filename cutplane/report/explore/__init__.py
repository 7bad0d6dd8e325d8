"""Step-by-step pictures of a method on a problem of one or two variables, or on a section of a larger one."""

from cutplane.report.explore.bundle_picture import explore, explore_result
from cutplane.report.explore.figure import Explorer

__all__ = ["Explorer", "explore", "explore_result"]
