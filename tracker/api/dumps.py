"""Rows and estimates as they stand in an answer."""

from datetime import datetime
from typing import Any

from flask import url_for
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.services.background_imports import unpack_report
from tracker.services.estimates import DECIDING_METHOD, Estimate, decide
from tracker.services.import_reports import ImportReport
from tracker.services.queries import load_metadata
from tracker.services.study_intervals import StudyReport
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.import_progress import find_progress
from tracker.storage.imports import FileImport
from tracker.storage.labels import Label
from tracker.storage.queries import Query
from tracker.storage.studies import Study


def _dump(shape: shapes.Shape) -> dict[str, Any]:
    return shape.model_dump(mode="json", by_alias=True)


def dump_detector(session: Session, detector: Detector) -> dict[str, Any]:
    """Return a detector as JSON."""
    return _dump(
        shapes.Detector(
            id=dump_id("det", detector.id),
            name=detector.name,
            question=detector.question,
            classes=detector.classes,
            confidence_level=detector.confidence_level,
            target=detector.target,
            audit_rate=detector.audit_rate,
            labels_wanted=detector.labels_wanted,
            created_at=detector.created_at,
            archived_at=detector.archived_at,
            versions=[
                shapes.DetectorVersion(name=version.name, created_at=version.created_at)
                for version in list_versions(session, detector.id)
            ],
        )
    )


def dump_query(
    session: Session, query: Query, *, version: str | None = None
) -> dict[str, Any]:
    """Return a query as JSON; *version* saves looking up the name of its version."""
    return _dump(
        shapes.Query(
            id=dump_id("iq", query.id),
            detector=dump_id("det", query.detector_id),
            key=query.key,
            input=query.input,
            predicted=query.predicted,
            confidence=query.confidence,
            # The session remembers it: a page of queries asks once a version.
            version=version or session.get_one(Version, query.version_id).name,
            asked_at=query.asked_at,
            created_at=query.created_at,
            metadata=load_metadata(query),
            image_url=query.image_url,
            image=_address_of_image(query),
            label=query.label,
            sampling=query.sampling,
            agreement=query.agreement,
        )
    )


def dump_next_query(
    detector: Detector, query: Query, *, sampling: str, reserved_until: datetime
) -> dict[str, Any]:
    """Return a query as JSON for whoever is to label it."""
    return _dump(
        shapes.NextQuery(
            id=dump_id("iq", query.id),
            detector=dump_id("det", detector.id),
            question=detector.question,
            classes=detector.classes,
            key=query.key,
            input=query.input,
            asked_at=query.asked_at,
            metadata=load_metadata(query),
            image_url=query.image_url,
            image=_address_of_image(query),
            sampling=sampling,
            reserved_until=reserved_until,
        )
    )


def _address_of_image(query: Query) -> str | None:
    if query.image is None:
        return None
    return url_for("queries.get_image", id=dump_id("iq", query.id), _external=True)


def dump_label(label: Label, *, is_current: bool) -> dict[str, Any]:
    """Return a label as JSON."""
    return _dump(
        shapes.Label(
            id=dump_id("lab", label.id),
            query=dump_id("iq", label.query_id),
            label=label.label,
            sampling=label.sampling,
            note=label.note,
            labeler=label.labeler,
            labelled_at=label.labelled_at,
            created_at=label.created_at,
            is_current=is_current,
        )
    )


def dump_estimate(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON."""
    balanced = estimate.balanced
    return _dump(
        shapes.Estimate(
            detector=dump_id("det", estimate.detector.id),
            name=estimate.detector.name,
            version=estimate.version,
            computed_at=estimate.computed_at,
            confidence_level=estimate.confidence_level,
            method=estimate.method,
            labels=estimate.labels,
            unclear=estimate.unclear,
            targeted_left_out=estimate.targeted_left_out,
            includes_targeted=estimate.includes_targeted,
            classes=[
                shapes.ClassEstimate(
                    name=scope.scope,
                    correct=scope.correct,
                    labelled=scope.labelled,
                    accuracy=scope.accuracy,
                    low=scope.low,
                    high=scope.high,
                )
                for scope in estimate.classes
            ],
            balanced=shapes.BalancedEstimate(
                accuracy=balanced.accuracy, low=balanced.low, high=balanced.high
            ),
            confusion={label: dict(row) for label, row in estimate.confusion.items()},
            decision=_shape_decision(estimate),
        )
    )


def _shape_decision(estimate: Estimate) -> shapes.Decision | None:
    decision, target = decide(estimate), estimate.detector.target
    if decision is None or target is None:
        return None
    return shapes.Decision(
        verdict=decision.verdict,
        target=target,
        method=DECIDING_METHOD,
        low=decision.low,
        high=decision.high,
    )


def dump_report(report: ImportReport) -> dict[str, Any]:
    """Return what an import did as JSON."""
    return _dump(_shape_report(report))


def _shape_report(report: ImportReport) -> shapes.ImportReport:
    return shapes.ImportReport(
        queries_added=report.queries_added,
        labels_added=report.labels_added,
        unchanged=report.unchanged,
        bad_rows=report.bad_rows,
        errors=[
            shapes.RowProblem(row=wrong.row, field=wrong.field, message=wrong.message)
            for wrong in report.errors
        ],
    )


def dump_import(session: Session, file_import: FileImport) -> dict[str, Any]:
    """Return an import that a worker carries out as JSON."""
    report = unpack_report(file_import)
    progress = find_progress(session, file_import)
    return _dump(
        shapes.Import(
            id=dump_id("imp", file_import.id),
            detector=dump_id("det", file_import.detector_id),
            state=file_import.state,
            on_error=file_import.on_error,
            rows_read=progress.rows,
            bytes=file_import.bytes,
            bytes_read=progress.bytes,
            created_at=file_import.created_at,
            started_at=file_import.started_at,
            finished_at=file_import.finished_at,
            report=None if report is None else _shape_report(report),
            error=file_import.error,
        )
    )


def dump_study(study: Study) -> dict[str, Any]:
    """Return a study as JSON."""
    return _dump(
        shapes.Study(
            id=dump_id("stu", study.id),
            detector=dump_id("det", study.detector_id),
            name=study.name,
            kind=study.kind,
            version=study.version,
            note=study.note,
            rounds=study.rounds,
            added_by=study.added_by,
            created_at=study.created_at,
        )
    )


def dump_study_report(report: StudyReport) -> dict[str, Any]:
    """Return a study with its intervals as JSON."""
    intervals = [
        shapes.StudyInterval(
            method=interval.method,
            accuracy=interval.accuracy,
            low=interval.low,
            high=interval.high,
            is_guaranteed=False,
            meaning=interval.meaning,
        )
        for interval in report.intervals
    ]
    return {
        **dump_study(report.study),
        "confidence_level": report.confidence_level,
        "intervals": [_dump(interval) for interval in intervals],
    }
