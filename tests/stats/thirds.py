"""The least value of a convex function, by thirds."""

from collections.abc import Callable
from typing import Any


def least_of(function: Callable[[Any], Any], left: Any, right: Any) -> Any:
    """Return the least value of a convex *function* between two places."""
    for _ in range(60):
        third = (right - left) / 3
        if function(left + third) < function(right - third):
            right -= third
        else:
            left += third
    return function((left + right) / 2)
