"""The rows of a risk in local memory, shared out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.risks.base import ImagedRisk

_NEEDED = {"X", "y", "sample_weight", "normalize"}


def split_rows(risk: Any, n_parts: int) -> list[ImagedRisk]:
    """Return risks of contiguous rows of nearly equal number, whose sum is the risk; CSC data are copied."""
    names = {field.name for field in getattr(risk, "__dataclass_fields__", {}).values() if field.init}
    if not names >= _NEEDED:
        raise InvalidInputError(
            f"{risk!r} is not made of rows that can be shared out, as a LinearRisk is; give a list of "
            "partitions."
        )
    m = risk.X.shape[0]
    if n_parts > m:
        raise InvalidInputError(f"n_parts must be at most the number of examples, {m}, got {n_parts}.")
    one_block = {"blocks": 1} if "blocks" in names else {}
    edges = (np.arange(n_parts + 1) * m // n_parts).tolist()
    return [
        replace(
            risk,
            X=risk.X[start:end],
            y=risk.y[start:end],
            sample_weight=risk.weights[start:end],
            normalize=False,
            **one_block,
        )
        for start, end in pairwise(edges)
    ]
