"""The same script as a widget of a notebook."""

from __future__ import annotations

from functools import cache
from typing import Any

from cutplane.report.explore.page import script
from cutplane.runtime.extras import require_extra

_DEFAULT = "\nexport default { render: ({ model, el }) => render(el, model.get('figure')) };\n"


def module() -> str:
    """Return the script with one export, the default: a notebook would call an exported `render` itself."""
    return script().replace("export function", "function") + _DEFAULT


def widget_of(figure: dict[str, Any]) -> Any:
    """Return the widget of a figure (needs the extra ``notebook``)."""
    return _class()(figure=figure)


@cache
def _class() -> Any:
    anywidget = require_extra("anywidget", "notebook")
    traitlets = require_extra("traitlets", "notebook")

    class ExplorerWidget(anywidget.AnyWidget):
        _esm = module()
        figure = traitlets.Dict().tag(sync=True)

    return ExplorerWidget
