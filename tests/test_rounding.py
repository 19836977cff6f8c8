"""A share is rounded to all or none only where it is that."""

import pytest

from tracker.rounding import rounded_share


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1.000"),
        (1_999_999 / 2_000_000, "0.999"),
        (0.99949, "0.999"),
        (0.8214, "0.821"),
        (0.5005, "0.500"),
        (1 / 2_000_000, "0.001"),
        (0, "0.000"),
    ],
)
def test_a_share_is_all_or_none_only_if_it_is(value: float, shown: str) -> None:
    assert str(rounded_share(value, 3)) == shown
