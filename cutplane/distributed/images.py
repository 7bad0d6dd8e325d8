"""The client's end of images."""

from __future__ import annotations

from cutplane.pieces.validation import Array


class Image:
    """The client's end of an image that lies in pieces on the workers: its point, and how to make it.

    The images that it is a combination of are kept alive until it is made, no longer.
    """

    def __init__(self, key: int, x: Array, parents: tuple[Image, Image, float] | None = None):
        self.key = key
        self.x = x
        self.parents = parents
        self.made = False
        self.slope: Array | None = None

    def plan(self) -> list[Image]:
        """Return the images that must be made for this one, itself last."""
        if self.made or self.parents is None:
            return [self]
        return [*self.parents[0].plan(), *self.parents[1].plan(), self]
