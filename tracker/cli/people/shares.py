"""Numbers between 0 and 1 on a command line."""

import math
from typing import Any

import click


class Share(click.FloatRange):
    """A number between 0 and 1, without these two unless they are *with_ends*."""

    name = "share"

    def __init__(self, *, with_ends: bool = False) -> None:
        """Allow all from 0 to 1, or all between."""
        super().__init__(0, 1, min_open=not with_ends, max_open=not with_ends)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return *value* as a number; NaN, which compares with nothing, is none."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number
