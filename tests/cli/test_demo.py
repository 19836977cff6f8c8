"""What the demo says while it is being prepared."""

import io

from rich.console import Console

from tracker.cli.demo import follow
from tracker.demo.digits import load_digits


def test_progress_is_only_shown_to_somebody_who_looks() -> None:
    digits = load_digits()[:3]
    for is_terminal in (False, True):
        said = io.StringIO()
        console = Console(file=said, force_terminal=is_terminal)
        assert list(follow(digits, "Images", console)) == digits
        assert bool(said.getvalue()) == is_terminal
