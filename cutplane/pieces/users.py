"""Which parts of a problem or a method users wrote."""

from __future__ import annotations

from typing import Any


def users_parts(piece: Any, kind: type) -> list[Any]:
    """Return the parts of a piece whose class this package does not define: itself, or parts that it holds.

    Parameters
    ----------
    piece : object
    kind : type
        Parts that are instances of it are searched, for example the factors of an intersection.
    """
    found = [] if type(piece).__module__.partition(".")[0] == __name__.partition(".")[0] else [piece]
    for value in getattr(piece, "__dict__", {}).values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, kind):
                found += users_parts(part, kind)
    return found
