"""Small lines of how an interval narrowed, kept until there is more of it."""

from flask import current_app
from sqlalchemy.orm import Session

from tracker.charts.sparkline import width_sparkline
from tracker.services.estimates.charts import list_widths
from tracker.storage.detectors import Version

EXTENSION = "tracker-sparklines"


class Sparklines:
    """The line of each version up to its newest snapshot.

    A snapshot never changes, so a line is right until there is another one; a list
    of many detectors would spend most of its time on lines that it has drawn.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[int, str]] = {}

    def draw(self, session: Session, version: Version, method: str) -> str:
        """Return the points of the line of *version*, "" where there is no line."""
        sequence, line = self._known.get((version.id, method), (-1, ""))
        if sequence != version.sequence:
            widths = list_widths(session, version, method)
            line = width_sparkline(widths) if len(widths) > 1 else ""
            self._known[version.id, method] = (version.sequence, line)
        return line


def draw_sparkline(session: Session, version: Version | None, method: str) -> str:
    """Return the line of *version* from what this application has drawn."""
    if version is None:
        return ""
    sparklines = current_app.extensions[EXTENSION]
    assert isinstance(sparklines, Sparklines)
    return sparklines.draw(session, version, method)
