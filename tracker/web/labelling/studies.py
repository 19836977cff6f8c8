"""Resampling studies: the list of them, the form to add one, and one of them."""

import math
from pathlib import PurePath
from typing import BinaryIO, cast

import numpy as np
from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts import words as chart_words
from tracker.charts.histogram import build_histogram
from tracker.charts.words import plural
from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.http import by, database
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.imports.reading.files import SUFFIXES
from tracker.services.imports.rounds import read_rounds
from tracker.services.labelling import studies as services
from tracker.shapes import Accuracy
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling.studies import list_studies
from tracker.web.blueprint import cut_page, lead_to, page
from tracker.web.downloads import download
from tracker.web.drawing.readings import Axis, Reading
from tracker.web.drawing.words import narrow
from tracker.web.forms import Form, failed_form, filled_in

_PAGE = 24
_TYPED = ("name", "kind", "version", "note")


@page("GET /detectors/<detector_id>/studies", "viewer")
def show_studies(detector_id: str) -> ResponseReturnValue:
    with database().read() as session:
        return _render_list(session, detector_id, Form({"kind": "bootstrap"}))


@page("POST /detectors/<detector_id>/studies", "editor")
def upload_study(detector_id: str) -> ResponseReturnValue:
    """Add the study whose rounds are in a file."""
    try:
        file = request.files.get("file")
        if file is None or not file.filename:
            raise InvalidInputError.of("file", "choose a file first")
        stream = cast("BinaryIO", file.stream)
        rounds = read_rounds(stream, PurePath(file.filename).suffix)
        said = filled_in(request.form, *_TYPED)
        new = services.parse_study({**said, "rounds": rounds})
        study = database().run(
            lambda session: services.add_study(
                session, get_open_detector(session, detector_id), new, by()
            )[0]
        )
    except (InvalidInputError, ConflictError) as error:
        if isinstance(error, InvalidInputError):
            error.errors = tuple(map(_at_field, error.errors))
        with database().read() as session:
            form = failed_form(request.form, error)
            return _render_list(session, detector_id, form), 422
    return lead_to("show_study", study_id=dump_id("stu", study.id))


def _at_field(wrong: FieldError) -> FieldError:
    # A mistake inside the file is an error of the field ``file``.
    if wrong.field in (*_TYPED, "file"):
        return wrong
    row = getattr(wrong, "row", None)
    place = [] if row is None else [f"row {row:,}"]
    if wrong.field not in ("row", "body", "rounds"):
        place.append(wrong.field)
    said = f"{', '.join(place)}: {wrong.message}" if place else wrong.message
    return FieldError("file", said)


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
        most_rounds=services.MOST_ROUNDS,
    )


@page("GET /studies/<study_id>", "viewer")
def show_study(study_id: str) -> ResponseReturnValue:
    """Show the intervals of a study, and what they do not cover."""
    with database().read() as session:
        study = services.get_study(session, study_id)
        detector = session.get_one(Detector, study.detector_id)
        report = services.build_study_report(session, study)
    # It begins below everything, but not where all would crowd.
    lowest = min(report.measured.min(), *(one.low for one in report.intervals))
    axis = Axis(min(9, math.floor(10 * lowest + 1e-9)) / 10)
    low, first, third, high = np.quantile(report.measured, [0, 0.25, 0.75, 1]).tolist()
    whole = Accuracy(accuracy=None, low=low, high=high)
    counts = plural(study.rounds, "round")
    # Two ends that were seen and hold no promise: each to the nearest.
    seen = [
        chart_words.accuracy(Accuracy(accuracy=end, low=first, high=third)) or ""
        for end in (first, third)
    ]
    return render_template(
        "studies/study.html",
        detector=detector,
        study=study,
        report=report,
        axis=axis,
        spread={
            "whole": narrow(chart_words.interval(whole)),
            "half": narrow(f"{seen[0].removesuffix(' %')}\N{EN DASH}{seen[1]}"),
            "columns": build_histogram(report.measured, min(axis.low, low)),
        },
        readings=[
            Reading(one.method, tone, Accuracy.from_row(one), counts)
            for tone, one in enumerate(report.intervals, start=1)
        ],
    )


@page("GET /studies/<study_id>/rounds.<suffix>", "viewer")
def download_rounds(study_id: str, suffix: str) -> ResponseReturnValue:
    """Download the rounds of a study."""
    with database().read() as session:
        study = services.get_study(session, study_id)
        rows = services.list_study_rows(session, study)
    return download(
        dump_id("stu", study.id), "rounds", suffix, list(rows[0]), lambda _: rows
    )
