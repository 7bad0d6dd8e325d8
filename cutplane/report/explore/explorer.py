"""A picture that is stepped through: in a notebook, as a page, or drawn once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutplane.exceptions import MissingExtraError
from cutplane.report.explore.page import frame, page
from cutplane.report.explore.widget import widget_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALONE, _SEVERAL = 680, 840
"""Heights of a frame with one panel and with more, in pixels, until the page says its own."""


@dataclass(frozen=True, eq=False, repr=False)
class Explorer:
    """What `explore` returns: shows itself as a widget in Jupyter, elsewhere as a page in a frame.

    Back, play, next and a slider go through the iterations; so do the arrow keys, Home, End and the space
    bar, a swipe, and the charts, which can be dragged.

    Attributes
    ----------
    data : dict
        The figure as plain JSON: panels of layers, and charts; see `cutplane.report.explore.figure`.
    """

    data: dict[str, Any]

    @property
    def frames(self) -> int:
        """The number of frames."""
        return self.data["frames"]

    @cached_property
    def widget(self) -> Any:
        """The widget (needs the extra ``notebook``)."""
        return widget_of(self.data)

    def save(self, path: str | Path) -> Path:
        """Write one HTML file that needs nothing else, neither a network nor Python.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path
            The file written.
        """
        path = Path(path)
        path.write_text(page(self.data), encoding="utf-8")
        return path

    def plot(self, iteration: int = -1) -> Figure:
        """Draw one frame and return the figure (needs the extra ``plot``).

        Parameters
        ----------
        iteration : int, default -1
            The frame; from the end if it is negative.
        """
        from cutplane.report.explore.still import draw

        return draw(self.data, range(self.frames)[iteration])

    def _repr_html_(self) -> str:
        return frame(self.data, _ALONE if len(self.data["panels"]) == 1 else _SEVERAL)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        try:
            bundle = self.widget._repr_mimebundle_(include=include, exclude=exclude)
        except MissingExtraError:
            bundle = None
        data, extra = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return data | {"text/html": self._repr_html_(), "text/plain": repr(self)}, extra

    def __repr__(self) -> str:
        return f"Explorer({self.data['title']}, {self.frames} frames)"
