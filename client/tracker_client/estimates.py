"""An estimate as a program reads it, and as people see it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from html import escape
from typing import Any

from tracker_client.server import Server, ServerError, UnreachableError, path_of

BALANCED = "balanced"
_VEGA_LITE = "application/vnd.vegalite.v6+json"


def outward(low: float, high: float, places: int = 1) -> tuple[str, str]:
    """Return bounds in per cent, rounded so that the interval only grows."""
    # A Decimal holds a float exactly; multiplying a float may round it inward.
    step = Decimal(1).scaleb(-places - 2)
    down = Decimal(low).quantize(step, ROUND_FLOOR)
    up = Decimal(high).quantize(step, ROUND_CEILING)
    # Adding 0 takes the sign from a zero.
    return f"{100 * down + 0:.{places}f}", f"{100 * up + 0:.{places}f}"


class Estimate(Mapping[str, Any]):
    """How accurate a detector is and how sure that is, as the API answers.

    It is the answer itself: ``estimate["balanced"]["low"]``.  It prints as a table,
    shows itself in a notebook with the chart of its history, and ``plot`` draws it.
    """

    def __init__(self, content: Mapping[str, Any], name: str, server: Server) -> None:
        """Wrap the *content* of an answer about the detector *name* of *server*."""
        self._content = content
        self._name = name
        self._server = server

    def __getitem__(self, field: str) -> Any:
        return self._content[field]

    def __iter__(self) -> Any:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return f"<Estimate of {self._name}: {self._rows()[0][2]}>"

    @property
    def balanced(self) -> Mapping[str, Any]:
        """Accuracy, low and high of the balanced accuracy."""
        found: Mapping[str, Any] = self["balanced"]
        return found

    @property
    def classes(self) -> list[Mapping[str, Any]]:
        """The same of each class, with its counts."""
        return list(self["classes"])

    @property
    def labels(self) -> int:
        """How many labels are scored."""
        return int(self["labels"])

    def verdict(self, target: float) -> str:
        """Say whether *target* is ``met``, ``missed`` or ``undecided``.

        It goes by the interval that decides, of the detector's measure, which may be
        asked after every label.  Labels that decide nothing leave it undecided.  A
        detector without a target has no such interval, and then the one of the balanced
        accuracy counts.
        """
        found = self.get("decision") or self.balanced
        if self._decides_nothing():
            return "undecided"
        if found["low"] > target:
            return "met"
        return "missed" if found["high"] < target else "undecided"

    def _decides_nothing(self) -> bool:
        """Return whether a target gets no verdict by these labels."""
        if self.get("target") is not None:
            return self.get("decision") is None
        kind = self["population"]["kind"]
        return kind != "live" or bool(self["includes_targeted"])

    def _title(self) -> str:
        level = 100 * self["confidence_level"]
        return (
            f"{self._name}, version {self['version'] or 'none yet'}: "
            f"{self.labels:,} labels, {level:g} % intervals, method {self['method']}"
        )

    def _rows(self) -> list[tuple[str, str, str]]:
        """Return scope, counts and accuracy with its interval, balanced first."""
        found = []
        for one in (self.balanced, *self.classes):
            counts = f"{one['correct']}/{one['labelled']}" if "labelled" in one else ""
            low, high = outward(one["low"], one["high"])
            accuracy = one["accuracy"]
            said = "not known" if accuracy is None else f"{100 * accuracy:.1f} %"
            found.append(
                (one.get("class", BALANCED), counts, f"{said} [{low}, {high}]")
            )
        return found

    def __str__(self) -> str:
        table = self._rows()
        widths = [max(len(row[column]) for row in table) for column in (0, 1)]
        lines = [
            f"{scope:{widths[0]}}  {counts:>{widths[1]}}  {said}"
            for scope, counts, said in table
        ]
        warnings = [f"warning: {one['message']}" for one in self["warnings"]]
        said = [self["basis"], *warnings, *lines, *self._decided()]
        return "\n".join([self._title(), *said])

    def _decided(self) -> list[str]:
        """Return verdicts with their measures and intervals, or why there is none."""
        decisions = [
            one for one in (self.get("decision"), *self.get("also", ())) if one
        ]
        said = []
        for one in decisions:
            low, high = outward(one["low"], one["high"])
            target = f"target {100 * one['target']:g} % of {one['measure']}"
            line = f"{target}: {one['verdict']}, [{low}, {high}] at every look"
            since = (one.get("span") or {}).get("since")
            if since:
                day = date.fromisoformat(since)
                line += f", since {day.day} {day:%b %Y}"
            said.append(line)
        if not decisions and self.get("no_decision_because"):
            said.append(f"no verdict: {self['no_decision_because']}")
        return said

    def chart_svg(self) -> str:
        """Ask for the chart of the history, as SVG."""
        return self._chart("svg").decode()

    def chart_spec(self) -> dict[str, Any]:
        """Ask for the chart of the history, as a Vega-Lite specification."""
        path = f"{path_of(self._name)}/chart.json"
        found: dict[str, Any] = self._server.get(path, **self._chosen()).json
        return found

    def _chart(self, kind: str) -> bytes:
        path = f"{path_of(self._name)}/chart.{kind}"
        return self._server.get(path, **self._chosen()).content

    def _chosen(self) -> dict[str, Any]:
        return {"version": self["version"], "method": self["method"]}

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        return (
            f"<table><caption>{escape(self._title())}</caption>"
            "<thead><tr><th>class</th><th>correct</th><th>accuracy</th></tr></thead>"
            f"<tbody>{cells}</tbody></table><p>{escape(self['basis'])}</p>"
            + "".join(f"<p>{escape(said)}</p>" for said in self._decided())
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return all that a notebook may show; without a server the table alone."""
        bundle: dict[str, Any] = {
            "text/plain": str(self),
            "text/html": self._repr_html_(),
        }
        try:
            picture = self.chart_svg()
            bundle[_VEGA_LITE] = self.chart_spec()
        except (ServerError, UnreachableError):
            return bundle
        bundle["image/svg+xml"] = picture
        # As a picture it runs nothing, whatever it holds.
        source = base64.b64encode(picture.encode()).decode()
        bundle["text/html"] += (
            f'<img alt="How the intervals tightened" '
            f'src="data:image/svg+xml;base64,{source}">'
        )
        return bundle

    def plot(self, ax: Any = None) -> Any:
        """Draw a bar from low to high for each row with matplotlib; return the axes."""
        if ax is None:
            # Only those who draw need it.
            import matplotlib.pyplot as plt  # noqa: PLC0415

            ax = plt.subplots()[1]
        rows = [self.balanced, *self.classes]
        names = [one.get("class", BALANCED) for one in rows]
        lows = [one["low"] for one in rows]
        places = range(len(rows))
        ax.barh(
            places,
            [one["high"] - one["low"] for one in rows],
            left=lows,
            height=0.5,
            alpha=0.4,
        )
        known = [
            (one["accuracy"], place)
            for place, one in enumerate(rows)
            if one["accuracy"] is not None
        ]
        ax.plot(*zip(*known) if known else ([], []), "k|", markersize=14)
        ax.set_yticks(list(places), names)
        ax.invert_yaxis()
        ax.set_xlim(min(0.5, *lows), 1)
        ax.set_xlabel("accuracy")
        ax.set_title(self._title(), fontsize="small")
        return ax
