"""Where a detector fails: its mistakes, and what they have in common."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import short_day
from tracker.errors import InvalidInputError
from tracker.http import now
from tracker.services.estimates.facets import (
    LABELER,
    PAIR,
    TAG,
    WEEK,
    Facet,
    Facets,
    Value,
    get_facets,
)
from tracker.services.versions import choose_default_versions
from tracker.storage.base import parse_id
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.queries.queries import Query, find_query_of
from tracker.web.blueprint import page, reading
from tracker.web.drawing.pictures import build_picture
from tracker.web.queries.filters import MOST_COUNTED, Filter, count
from tracker.web.queries.queries import MANY, list_page

_MOST_VALUES = 6


@page("GET /detectors/<detector_id>/mistakes", "viewer")
def show_mistakes(detector_id: str) -> ResponseReturnValue:
    with reading(detector_id) as (session, detector):
        asked = _choose(session, detector)
        place = parse_id("iq", request.args.get("after", ""))
        after = place and find_query_of(session, detector.id, place)
        problem, found, last, total = None, None, None, 0
        queries: Sequence[Query] = ()
        try:
            queries, last, total = list_page(session, detector, asked, after or None)
            found = get_facets(session, detector, asked.wanted, at=now())
        except InvalidInputError as error:
            problem = str(error)
        # That no estimate counts.  To find a few among many takes a walk along all.
        others: int | None = 0
        if asked.counted == "yes" and not problem:
            aside = replace(asked.wanted, is_counted=False)
            is_large = _is_large(session, detector)
            others = None if is_large else count(session, detector, aside)
        page = render_template(
            "queries/mistakes.html",
            detector=detector,
            asked=asked,
            shown=[(query, build_picture(detector, query)) for query in queries],
            total=total,
            most_counted=MOST_COUNTED,
            last=last,
            is_first=not after,
            problem=problem,
            facets=_offer(found, asked, request.args.get("open")) if found else [],
            worst=found and found.find_worst(),
            whole=found and found.items[0],
            is_cut=found and found.is_cut,
            since=_name_span(asked),
            others=others,
        )
    return page, 400 if problem else 200


def _name_span(asked: Filter) -> str:
    names = []
    for text in (asked.first, asked.last):
        try:
            names.append(short_day(date.fromisoformat(text), now().date()))
        except ValueError:
            names.append(text)
    first, last = names
    if first and last:
        return f"from {first} to {last}"
    return f"since {first}" if first else f"until {last}" if last else ""


def _choose(session: Session, detector: Detector) -> Filter:
    """Return the filter: of the shown version, and the surest mistakes first."""
    asked = Filter.parse(request.args)
    shown = choose_default_versions(session, [detector]).get(detector.id)
    return replace(
        asked,
        show="wrong",
        version=asked.version or (shown.name if shown else ""),
        counted=asked.counted or "yes",
        sort=request.args.get("sort")
        or ("newest" if _is_large(session, detector) else "-confidence"),
    )


def _is_large(session: Session, detector: Detector) -> bool:
    return sum(v.queries for v in list_versions(session, detector.id)) >= MANY


def _offer(
    found: Facets, asked: Filter, opened: str | None
) -> list[tuple[Facet, list[tuple[Value, bool, dict[str, Any]]], int]]:
    offered = []
    for facet in found.items:
        values = [v for v in facet.values if v.mistakes or v.text == facet.chosen]
        if facet.key == WEEK:
            values = values[:_MOST_VALUES]
        first = values if opened == facet.key else values[:_MOST_VALUES]
        first += [v for v in values[len(first) :] if v.text == facet.chosen]
        if len(facet.values) > 1 or facet.chosen:
            choices = [_choice(facet, value, asked) for value in first]
            offered.append((facet, choices, len(values) - len(first)))
    return offered


def _choice(
    facet: Facet, value: Value, asked: Filter
) -> tuple[Value, bool, dict[str, Any]]:
    is_on = value.text == facet.chosen or value.text in asked.where
    field = value.text.partition(":")[0]
    kept = [one for one in asked.where if one.partition(":")[0] != field]
    address = asked.address | {"where": kept}
    if facet.key == PAIR:
        label, predicted = (None, None) if is_on else json.loads(value.text)
        address |= {"label": label, "predicted": predicted}
    elif facet.key in {LABELER, TAG}:
        address[facet.key] = None if is_on else value.text
    elif not is_on:
        address["where"] = [*kept, value.text]
    return value, is_on, address
