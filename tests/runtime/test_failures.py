"""Memory that runs out is named once, by the innermost task."""

import pytest

from cutplane.exceptions import OutOfMemoryError
from cutplane.runtime.failures import memory_for


def test_the_innermost_task_is_named():
    with pytest.raises(OutOfMemoryError, match=r"in the product, at .*: 12 GB") as caught:
        with memory_for("the solve"), memory_for("the product"):
            raise MemoryError("12 GB")
    assert "the solve" not in str(caught.value)
