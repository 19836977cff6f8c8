"""Audits: starting them, labelling for them, and their estimates."""

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Response
from pydantic import Field, RootModel
from sqlalchemy.orm import Session

from tracker import http, shapes, words
from tracker.api.parameters import (
    DrawLimit,
    IdPath,
    Page,
    Parameters,
    dump_newest,
    optional,
)
from tracker.api.queries import address_of_image
from tracker.api.routes import build_routes
from tracker.services.by import By
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates.weeks import Cut
from tracker.services.fields import Address, KeyName
from tracker.services.labelling.auditing import (
    audit_draws,
    audit_estimates,
    audit_lifecycle,
)
from tracker.services.labelling.auditing import audits as services
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import AuditSummary
from tracker.services.labelling.queues import NextQuery, describe_next
from tracker.services.queries.queries import get_query_by_number
from tracker.services.telling.events import close_audit as close
from tracker.storage.base import dump_id
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audits import Audit, list_schedules

routes = build_routes("audits", "The fewest labels for a fixed set of queries.")


class AuditList(Page):
    """Which audits to list."""

    prefix = "aud"

    every: Cut | None = optional("Only those that schedules made of each such span.")


class DrawsWanted(Parameters):
    """How many draws are wanted, and for whom."""

    count: DrawLimit = Field(
        default=1, description="The number of draws, from 1 to 100."
    )
    labeler: KeyName | None = optional("The labeler; by default the name of the key.")


class AuditPage(shapes.Shape):
    """A page of audits, the newest first."""

    items: list[AuditSummary]
    next: Address | None = Field(description="The address of the page after this one.")


class NewlyBegun(RootModel[AuditSummary | audit_lifecycle.ScheduleSummary]):
    """An audit; with every a schedule that makes one of each span."""


class SchedulePage(shapes.Shape):
    """The schedules of a detector, the newest first."""

    items: list[audit_lifecycle.ScheduleSummary]
    next: None = Field(description="Always null: all schedules are in this list.")


class AuditDraw(NextQuery):
    """A draw of an audit: a query to be labelled."""

    draw: int = Field(
        description="The number of the draw, from 0; draws count in this order."
    )


class AuditDraws(shapes.Shape):
    """The next draws in order; empty if none is left."""

    items: list[AuditDraw]
    next: None = Field(
        description="Always null: the draws after these come once these are labelled."
    )


class AuditSavings(shapes.Shape):
    """What choosing has saved so far, by simulations that know the labels there are."""

    labels: int = Field(description="The number of draws that count.")
    labels_at_random: int | None = Field(
        description="About how many random labels would give as narrow an interval; "
        "null before 100 labels."
    )
    labels_without_judges: int | None = Field(
        description="About how many labels an audit would take that knows no judge; "
        "null without judges, and before 100 labels."
    )


class AuditHistory(shapes.Shape):
    """The intervals of an audit round by round, the oldest first."""

    items: list[audit_estimates.AuditMoment]
    next: None = Field(description="Always null: all rounds are in this list.")


@routes.call("POST /detectors/<id>/audits", "editor", NewlyBegun, 409, status=201)
def add_audit(path: IdPath, body: NewAudit) -> Response:
    """Begin an audit of a fixed set of queries, or with every a schedule of audits.

    The draws have known chances, so the intervals hold at every look, however bad the
    confidences are.
    """

    def add(session: Session) -> tuple[shapes.Shape, int]:
        detector = get_open_detector(session, path.id)
        if body.every is not None:
            schedule = audit_lifecycle.create_schedule(
                session, detector, body, http.by()
            )
            return audit_lifecycle.describe_schedule(session, schedule), 201
        audit = services.create_audit(session, detector, body, http.by())
        return services.describe_audit(session, audit), 201

    return http.answer_idempotently(add, body)


@routes.call("GET /detectors/<id>/audits", "viewer", AuditPage)
def list_audits(path: IdPath, query: AuditList) -> dict[str, Any]:
    """List the audits of a detector, the newest first."""
    find = partial(storage.list_audits, every=query.every)
    page = query.model_dump(exclude={"every"})
    return dump_newest(path.id, find, services.describe_audit, "aud", **page)


@routes.call("GET /detectors/<id>/audit-schedules", "viewer", SchedulePage)
def list_audit_schedules(path: IdPath) -> dict[str, Any]:
    """List what makes the audits of each week, day or month, the newest first."""
    with http.database().read() as session:
        detector = get_detector(session, path.id)
        found = list_schedules(session, detector.id)
        items = [audit_lifecycle.describe_schedule(session, one) for one in found]
        return SchedulePage(items=items, next=None).dump()


@routes.call("GET /audit-schedules/<id>", "viewer", audit_lifecycle.ScheduleSummary)
def get_audit_schedule(path: IdPath) -> dict[str, Any]:
    """Get a schedule, and which of its audits prove too low an accuracy."""
    with http.database().read() as session:
        schedule = audit_lifecycle.get_schedule(session, path.id)
        return audit_lifecycle.describe_schedule(session, schedule).dump()


@routes.call(
    "POST /audit-schedules/<id>/stop", "editor", audit_lifecycle.ScheduleSummary, 422
)
def stop_audit_schedule(path: IdPath) -> Response:
    """Make no more audits; those that are open go on."""

    def stop(session: Session) -> tuple[shapes.Shape, int]:
        schedule = audit_lifecycle.get_schedule(session, path.id)
        stopped = audit_lifecycle.stop_schedule(session, schedule, http.by())
        return audit_lifecycle.describe_schedule(session, stopped), 200

    return http.answer_idempotently(stop)


@routes.call("GET /audits/<id>", "viewer", AuditSummary)
def get_audit(path: IdPath) -> dict[str, Any]:
    """Get an audit."""
    return _read(path, services.describe_audit)


def _read(
    path: IdPath, describe: Callable[[Session, Audit], shapes.Shape]
) -> dict[str, Any]:
    with http.database().read() as session:
        return describe(session, services.get_audit(session, path.id)).dump()


@routes.call("GET /audits/<id>/next", "labeler", AuditDraws, 409)
def get_next_draws(path: IdPath, query: DrawsWanted) -> dict[str, Any]:
    """Get the next draws of an audit, reserved for the caller.

    The same draws are returned until they are labelled; label one that cannot be
    answered UNCLEAR.  After half an hour they are offered to others too.
    """
    asked_by = http.by().credit(query.labeler)

    def work(session: Session) -> dict[str, Any]:
        audit = services.get_audit(session, path.id)
        detector = get_open_detector(session, dump_id("det", audit.detector_id))
        items = []
        for draw in audit_draws.draw_next(session, audit, asked_by, count=query.count):
            one = get_query_by_number(session, detector.id, draw.query_id)
            found = describe_next(
                detector, one, words.TARGETED, draw.until, image=address_of_image(one)
            )
            items.append(AuditDraw(**dict(found), draw=draw.number))
        return AuditDraws(items=items, next=None).dump()

    return http.database().run(work)


@routes.call("GET /audits/<id>/estimate", "viewer", audit_estimates.SetEstimate)
def estimate_audit(path: IdPath) -> dict[str, Any]:
    """Compute the estimate of an audit's set of queries, by the method active."""
    return _read(
        path, partial(audit_estimates.get_audit_estimate, computed_at=http.now())
    )


@routes.call("GET /audits/<id>/savings", "viewer", AuditSavings)
def get_audit_savings(path: IdPath) -> dict[str, Any]:
    """Simulate how many labels choosing and judges have saved so far."""

    def save(session: Session, audit: Audit) -> AuditSavings:
        record = audit_draws.load_record(session, audit)
        used = record.ledger.settled
        found = http.find_comparison(record)
        at_random, without = found.labels_saved(used), found.saved_by_judges(used)
        return AuditSavings(
            labels=used,
            labels_at_random=None if at_random is None else used + at_random,
            labels_without_judges=None if without is None else used + without,
        )

    return _read(path, save)


@routes.call("GET /audits/<id>/history", "viewer", AuditHistory)
def get_audit_history(path: IdPath) -> dict[str, Any]:
    """Get the intervals of an audit after each round."""

    def look_back(session: Session, audit: Audit) -> AuditHistory:
        record = audit_draws.load_record(session, audit)
        items = audit_estimates.build_history(record, computed_at=http.now())
        return AuditHistory(items=items, next=None)

    return _read(path, look_back)


@routes.call("GET /audits/<id>/record", "viewer", audit_draws.AuditRecord)
def get_record(path: IdPath) -> dict[str, Any]:
    """Get the strata, rounds and draws of an audit, to compute its intervals again."""
    return _read(path, audit_draws.get_audit_record)


@routes.call("PATCH /audits/<id>", "editor", AuditSummary, 409)
def extend_audit(path: IdPath, body: audit_lifecycle.AuditChange) -> dict[str, Any]:
    """Give an audit a narrower aim; all labels given so far count."""
    with http.database().write() as session:
        audit = services.get_audit(session, path.id)
        audit = audit_lifecycle.extend_audit(session, audit, body, http.by())
        return services.describe_audit(session, audit).dump()


@routes.call("POST /audits/<id>/pause", "editor", AuditSummary, 409, 422)
def pause_audit(path: IdPath) -> Response:
    """Draw nothing more from an audit until it is resumed."""
    return _change(path, audit_lifecycle.pause_audit)


@routes.call("POST /audits/<id>/resume", "editor", AuditSummary, 409, 422)
def resume_audit(path: IdPath) -> Response:
    """Resume an audit that was paused."""
    return _change(path, partial(audit_lifecycle.pause_audit, is_paused=False))


@routes.call("POST /audits/<id>/close", "editor", AuditSummary, 409, 422)
def close_audit(path: IdPath) -> Response:
    """Close an audit: its result is kept, drawing ends, and its seed is revealed."""
    return _change(path, close)


def _change(path: IdPath, change: Callable[[Session, Audit, By], Audit]) -> Response:
    def work(session: Session) -> tuple[shapes.Shape, int]:
        audit = change(session, services.get_audit(session, path.id), http.by())
        return services.describe_audit(session, audit), 200

    return http.answer_idempotently(work)
