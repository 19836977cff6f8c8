"""Questions before something that cannot be undone."""

import io

import click
import pytest

from tracker.cli.options import ask


class Typed(io.StringIO):
    """What somebody types at a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_and_may_say_no(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer in ("n\n", "\n"):
        monkeypatch.setattr("sys.stdin", Typed(answer))
        with pytest.raises(click.Abort):
            ask("It will be gone.", yes=False)
    assert "It will be gone. Go on? [y/N]" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    ask("It will be gone.", yes=False)


def test_who_has_said_yes_and_who_is_no_person_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    ask("It will be gone.", yes=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    ask("It will be gone.", yes=False)
    assert not capsys.readouterr().out
