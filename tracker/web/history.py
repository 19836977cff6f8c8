"""The history of a detector: its chart, its table and its files."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Response, jsonify, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker import stats
from tracker.charts.render import render_png, render_svg
from tracker.http import database, requires
from tracker.services.charts import build_chart
from tracker.services.detectors import choose_versions, get_detector
from tracker.services.estimates import ScopeEstimate, check_method, most_moments
from tracker.services.fields import BALANCED
from tracker.services.history import (
    HISTORY_COLUMNS,
    LABEL_COLUMNS,
    iter_history,
    iter_labels,
    list_readings,
)
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.snapshots import Snapshot, list_snapshots
from tracker.web.blueprint import pages
from tracker.web.downloads import download
from tracker.web.readings import Reading, read

_PAGE = 50
# Beyond so many classes the table shows one of them, which the visitor chooses.
_MOST_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A snapshot with the accuracies that the table shows of it."""

    snapshot: Snapshot
    readings: Sequence[Reading]


@pages.get("/detectors/<detector_id>/history")
@requires("viewer")
def show_history(detector_id: str) -> ResponseReturnValue:
    """Show how the intervals of a version tightened, as a chart and a table."""
    chosen = _choose_chart(request.args)
    check_method(chosen["method"])
    with database().read() as session:
        detector = get_detector(session, detector_id)
        versions = choose_versions(session, detector, chosen["version"])
        version = versions[-1] if versions else None
        return render_template(
            "history/history.html",
            detector=detector,
            versions=list_versions(session, detector.id),
            methods=stats.METHODS,
            **chosen | {"version": version},
            **_table(session, detector, version, chosen["method"]),
        )


def _table(
    session: Session, detector: Detector, version: Version | None, method: str
) -> dict[str, Any]:
    """Return a page of the table: the newest snapshots first, or in order."""
    is_oldest_first = request.args.get("order") == "oldest"
    beyond = request.args.get("beyond", type=int)
    scope = request.args.get("scope", "")
    positions = _choose_columns(detector, scope)
    page = most_moments(method, len(detector.classes), of=_PAGE)
    snapshots: Sequence[Snapshot] = []
    if version is not None:
        snapshots = list_snapshots(
            session,
            version.id,
            beyond=beyond,
            is_oldest_first=is_oldest_first,
            limit=page + 1,
        )
    shown = snapshots[:page]
    return {
        "columns": [detector.classes[position - 1] for position in positions[1:]],
        "scope": scope,
        "lines": _read_lines(session, detector, shown, method, positions),
        "order": "oldest" if is_oldest_first else "newest",
        "beyond": beyond,
        "following": shown[-1].sequence if len(snapshots) > page else None,
    }


def _choose_columns(detector: Detector, scope: str) -> list[int]:
    count = len(detector.classes)
    if count <= _MOST_COLUMNS:
        return list(range(count + 1))
    return [0, detector.classes.index(scope) + 1] if scope in detector.classes else [0]


def _read_lines(
    session: Session,
    detector: Detector,
    snapshots: Sequence[Snapshot],
    method: str,
    positions: list[int],
) -> list[Line]:
    ids = [snapshot.id for snapshot in snapshots]
    scopes = [BALANCED, *detector.classes]
    found: dict[int, list[Reading]] = {snapshot.sequence: [] for snapshot in snapshots}
    for row in list_readings(
        session, detector, ids, method=method, positions=positions
    ):
        name = scopes[row.position]
        scope = ScopeEstimate(
            name, row.correct, row.labelled, row.accuracy, row.low, row.high
        )
        found[row.sequence].append(
            read(
                scope, labels=row.labels, computed_at=row.computed_at, name=name, tone=0
            )
        )
    return [Line(snapshot, found[snapshot.sequence]) for snapshot in snapshots]


@pages.get("/detectors/<detector_id>/chart.<any(json,svg,png):suffix>")
@requires("viewer")
def show_chart(detector_id: str, suffix: str) -> ResponseReturnValue:
    """Draw the tightening chart, or give its specification."""
    chosen = _choose_chart(request.args)
    with database().read() as session:
        detector = get_detector(session, detector_id)
        tag = _fingerprint_chart(session, detector, chosen, suffix)
        if tag in request.if_none_match:
            return Response(status=304)
        spec = build_chart(session, detector, **chosen)
    answer = _render(spec, suffix)
    answer.set_etag(tag)
    return answer


def _render(spec: dict[str, Any], suffix: str) -> Response:
    if suffix == "svg":
        return Response(render_svg(spec), mimetype="image/svg+xml")
    if suffix == "png":
        return Response(render_png(spec), mimetype="image/png")
    return jsonify(spec)


def _fingerprint_chart(
    session: Session, detector: Detector, chosen: Mapping[str, Any], suffix: str
) -> str:
    """Return another one whenever the chart is another one, without drawing it.

    Snapshots never change, so all of them are known by the number of the last one.
    """
    versions = choose_versions(session, detector, chosen["version"])
    seen = (
        *(suffix, sorted(chosen.items(), key=str)),
        *(detector.name, detector.target, detector.confidence_level),
        [(version.id, version.name, version.sequence) for version in versions[-1:]],
    )
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def _choose_chart(asked: Mapping[str, str]) -> dict[str, Any]:
    return {
        "version": asked.get("version") or None,
        "method": asked.get("method", "exact"),
        "x": "time" if asked.get("x") == "time" else "labels",
        "theme": "dark" if asked.get("theme") == "dark" else "light",
        "layout": "narrow" if asked.get("layout") == "narrow" else "wide",
    }


@pages.get("/detectors/<detector_id>/history.<suffix>")
@requires("viewer")
def download_history(detector_id: str, suffix: str) -> ResponseReturnValue:
    """Download the history of a detector."""
    version = request.args.get("version") or None
    with database().read() as session:
        detector = get_detector(session, detector_id)
        choose_versions(session, detector, version)

    method = request.args.get("method", "exact")
    check_method(method, or_all=True)

    def rows(session: Session) -> Iterator[dict[str, Any]]:
        for _, row in iter_history(session, detector, version=version, method=method):
            yield row

    return download(
        dump_id("det", detector.id), "history", suffix, HISTORY_COLUMNS, rows
    )


@pages.get("/detectors/<detector_id>/labels.<suffix>")
@requires("viewer")
def download_labels(detector_id: str, suffix: str) -> ResponseReturnValue:
    """Download every label ever given to a query of a detector."""
    with database().read() as session:
        detector = get_detector(session, detector_id)

    return download(
        dump_id("det", detector.id),
        "labels",
        suffix,
        LABEL_COLUMNS,
        lambda session: iter_labels(session, detector),
    )
