"""Resampling studies: the list of them, the form to add one, and one of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO, cast

import numpy as np
from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session
from werkzeug.datastructures import FileStorage

from tracker.charts import words as chart_words
from tracker.charts.histogram import Column, build_histogram
from tracker.charts.words import plural
from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.http import by, database, requires
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.imports.reading.files import SUFFIXES
from tracker.services.imports.rounds import read_rounds
from tracker.services.labelling.studies import (
    MOST_ROUNDS,
    NewStudy,
    StudyAnalysis,
    StudyInterval,
    add_study,
    build_study_report,
    get_study,
    list_study_rows,
    parse_study,
)
from tracker.shapes import Accuracy
from tracker.storage.base import dump_id, parse_id
from tracker.storage.labelling.studies import Study, list_studies
from tracker.web.blueprint import cut_page, lead_to, pages
from tracker.web.downloads import download
from tracker.web.drawing.readings import Axis, Reading
from tracker.web.drawing.words import narrow
from tracker.web.forms import Form, failed_form, filled_in

_PAGE = 24
_TYPED = ("name", "kind", "version", "note")


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the rounds lie: all of them, the middle half, and the picture."""

    whole: str
    half: str
    columns: Sequence[Column]


@pages.get("/detectors/<detector_id>/studies")
@requires("viewer")
def show_studies(detector_id: str) -> ResponseReturnValue:
    """Show the resampling studies of a detector, and the form to add one."""
    with database().read() as session:
        return _render_list(session, detector_id, Form({"kind": "bootstrap"}))


@pages.post("/detectors/<detector_id>/studies")
@requires("editor")
def upload_study(detector_id: str) -> ResponseReturnValue:
    """Add the study whose rounds are in a file."""
    try:
        new = _read_form(request.form, request.files.get("file"))
        study = database().run(lambda session: _add(session, detector_id, new))
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            form = failed_form(request.form, _at_fields(error))
            return _render_list(session, detector_id, form), 422
    return lead_to("show_study", study_id=dump_id("stu", study.id))


def _read_form(typed: Mapping[str, str], file: FileStorage | None) -> NewStudy:
    if file is None or not file.filename:
        raise InvalidInputError.of("file", "choose a file first")
    stream = cast("BinaryIO", file.stream)
    rounds = read_rounds(stream, PurePath(file.filename).suffix)
    return parse_study({**filled_in(typed, *_TYPED), "rounds": rounds})


def _add(session: Session, detector_id: str, new: NewStudy) -> Study:
    detector = get_open_detector(session, detector_id)
    return add_study(session, detector, new, by())[0]


def _at_fields(
    error: InvalidInputError | ConflictError,
) -> InvalidInputError | ConflictError:
    """Return *error* with mistakes inside the file as errors of the field ``file``."""
    if isinstance(error, ConflictError):
        return error
    return InvalidInputError(
        wrong
        if wrong.field in (*_TYPED, "file")
        else FieldError("file", _describe(wrong))
        for wrong in error.errors
    )


def _describe(wrong: FieldError) -> str:
    row = getattr(wrong, "row", None)
    place = [] if row is None else [f"row {row:,}"]
    if wrong.field not in ("row", "body", "rounds"):
        place.append(wrong.field)
    return ": ".join([*([", ".join(place)] if place else []), wrong.message])


def _render_list(session: Session, detector_id: str, form: Form) -> str:
    detector = get_detector(session, detector_id)
    before = parse_id("stu", request.args.get("before", ""))
    found = list_studies(session, detector.id, before=before, limit=_PAGE + 1)
    studies, last = cut_page(found, _PAGE)
    return render_template(
        "studies/list.html",
        detector=detector,
        studies=studies,
        last=last,
        is_first=before is None,
        form=form,
        suffixes=",".join(SUFFIXES),
        most_rounds=MOST_ROUNDS,
    )


@pages.get("/studies/<study_id>")
@requires("viewer")
def show_study(study_id: str) -> ResponseReturnValue:
    """Show the intervals of a study, and what they do not cover."""
    with database().read() as session:
        report = build_study_report(session, get_study(session, study_id))
    axis = _build_axis(report)
    return render_template(
        "studies/study.html",
        detector=report.detector,
        study=report.study,
        report=report,
        axis=axis,
        spread=_build_spread(report, axis),
        readings=[
            _read(report, interval, tone)
            for tone, interval in enumerate(report.intervals, start=1)
        ],
    )


def _build_axis(report: StudyAnalysis) -> Axis:
    """Return an axis that begins below everything, but not where all would crowd."""
    lowest = min(report.measured.min(), *(one.low for one in report.intervals))
    return Axis(min(9, math.floor(10 * lowest + 1e-9)) / 10)


def _build_spread(report: StudyAnalysis, axis: Axis) -> Spread:
    rounds = report.measured
    low, first, third, high = np.quantile(rounds, [0, 0.25, 0.75, 1]).tolist()
    return Spread(
        whole=narrow(chart_words.interval(Accuracy(accuracy=None, low=low, high=high))),
        half=_between(first, third),
        columns=build_histogram(rounds, min(axis.low, low)),
    )


def _between(low: float, high: float) -> str:
    """Return two ends that were seen and hold no promise: each to the nearest."""
    seen = [
        chart_words.accuracy(Accuracy(accuracy=end, low=low, high=high)) or ""
        for end in (low, high)
    ]
    return narrow(f"{seen[0].removesuffix(' %')}\N{EN DASH}{seen[1]}")


def _read(report: StudyAnalysis, interval: StudyInterval, tone: int) -> Reading:
    return Reading(
        interval.method,
        tone,
        Accuracy(accuracy=interval.accuracy, low=interval.low, high=interval.high),
        plural(report.study.rounds, "round"),
    )


@pages.get("/studies/<study_id>/rounds.<suffix>")
@requires("viewer")
def download_rounds(study_id: str, suffix: str) -> ResponseReturnValue:
    """Download the rounds of a study."""
    with database().read() as session:
        study = get_study(session, study_id)
        rows = list_study_rows(session, study)
    return download(
        dump_id("stu", study.id), "rounds", suffix, list(rows[0]), lambda _: rows
    )
