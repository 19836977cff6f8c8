"""The one blueprint that every page belongs to, and the functions of its templates."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from flask import (
    Blueprint,
    Response,
    current_app,
    flash,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)
from sqlalchemy.orm import Session, object_session
from werkzeug.routing import BaseConverter, ValidationError

from tracker.charts.words import bounds, plural, shorten
from tracker.http import context, database, find_account, now, required_role, route
from tracker.rounding import outward, roughly
from tracker.services.detectors import get_detector
from tracker.services.evidence.measure import read_measure
from tracker.services.versions import choose_default_versions
from tracker.storage.base import dump_id, parse_whole
from tracker.storage.detectors import Detector, list_versions
from tracker.web.drawing import words
from tracker.web.drawing.readings import span_decided
from tracker.words import BALANCED

pages = Blueprint("pages", __name__)


class WholeConverter(BaseConverter):
    """The number of a row in a path, which both databases can keep."""

    regex = "[0-9]+"

    def to_python(self, value: str) -> int:
        """Return the number; a larger one names nothing."""
        number = parse_whole(value)
        if number is None:
            raise ValidationError
        return number


_Row = TypeVar("_Row")


page = partial(route, pages)


@pages.url_value_preprocessor
def allow_a_large_file(endpoint: str | None, _values: dict[str, Any] | None) -> None:
    """Let an import be larger than other bodies, before the form is first read."""
    if endpoint in {"pages.import_file", "pages.preview_import"}:
        request.max_content_length = context().settings.max_body_bytes


def lead_to(endpoint: str, *, says: str = "", **names: Any) -> Response:
    """Redirect to a page after a form, so that the browser gets it by itself.

    The page then *says* what was done.
    """
    if says:
        flash(says)
    return make_response(redirect(url_for(f"pages.{endpoint}", **names), 303))


@contextmanager
def reading(detector_id: str) -> Iterator[tuple[Session, Detector]]:
    """Open a read transaction, and yield it with the detector."""
    with database().read() as session:
        yield session, get_detector(session, detector_id)


# Globals, because macros do not see what a context processor adds.
for _word in (
    words.about,
    words.at_least,
    bounds,
    words.browser_name,
    words.chance,
    words.confidence,
    words.covers,
    words.day,
    words.exactly,
    words.lasting,
    words.narrow,
    words.number,
    outward,
    plural,
    roughly,
    words.sentence,
    words.share,
    words.share_of,
    words.span,
    shorten,
    span_decided,
):
    pages.add_app_template_global(_word)
pages.add_app_template_global(find_account, "visitor")
pages.add_app_template_global(now, "server_now")


# The public id of a row: detector_ref(detector) is "det_7".
for _noun, _prefix in (
    ("audit", "aud"),
    ("detector", "det"),
    ("import", "imp"),
    ("query", "iq"),
    ("study", "stu"),
    ("webhook", "whk"),
):
    pages.add_app_template_global(
        lambda row, prefix=_prefix: dump_id(prefix, row.id), f"{_noun}_ref"
    )


@pages.app_template_global()
def name_measure(text: str) -> str:
    """Return a measure as pages call it, such as "accuracy of DEFECT"."""
    return "mean of the classes" if text == BALANCED else read_measure(text).name


@pages.app_template_global()
def ago(instant: datetime) -> str:
    """Return how long before this request *instant* was."""
    return words.ago(instant, now())


@pages.app_template_global()
def name_versions(detector: Detector) -> list[str]:
    """Return the names of the versions of *detector*, the newest first."""
    with session_of(detector) as session:
        return [one.name for one in reversed(list_versions(session, detector.id))]


@pages.app_template_global()
def name_shown_version(detector: Detector) -> str | None:
    """Return the version of *detector* that pages show unless one is chosen."""
    with session_of(detector) as session:
        shown = choose_default_versions(session, [detector])
        return shown[detector.id].name if shown else None


def session_of(detector: Detector) -> AbstractContextManager[Session]:
    # A page that is rendered within its session asks that one: it has a snapshot.
    session = object_session(detector)
    return database().read() if session is None else nullcontext(session)


@pages.app_template_global()
def may(endpoint: str) -> bool:
    """Return whether the visitor may open that page."""
    found, role = find_account(), required_role(current_app, f"pages.{endpoint}")
    return found is not None and role is not None and found.may(role)


class Sort(NamedTuple):
    """A column that a table can be sorted by."""

    title: str
    key: Callable[[Any], Any]
    # Whether the first click sorts downwards.
    is_down: bool = False


def sort_rows(
    rows: list[Any],
    sorts: Mapping[str, Sort],
    sort: str,
    *,
    usual: Callable[[Any], Any],
) -> None:
    """Sort *rows* in place by the column *sort*, downwards behind "-", or as usual."""
    by = sorts.get(sort.removeprefix("-"))
    key = by.key if by else usual
    rows.sort(key=key, reverse=by is not None and sort.startswith("-"))


def cut_page(found: Sequence[_Row], size: int) -> tuple[Sequence[_Row], _Row | None]:
    """Return at most *size* rows, and the last of them if more were *found*."""
    return found[:size], found[size - 1] if len(found) > size else None


def answer_live(
    template: str, *, seen: str, fingerprint: str, **values: Any
) -> Response:
    """Return a page, or nothing for a page that has this content already.

    A page that asks again says in *seen* what it shows.  Where that is out of date
    the answer fires ``tracker:refresh``, and charts are drawn again.
    """
    if seen == fingerprint:
        return Response(status=204)
    page = make_response(render_template(template, fingerprint=fingerprint, **values))
    if seen:
        page.headers["HX-Trigger"] = "tracker:refresh"
    return page


def allow_style(style: str) -> str:
    """Return the policy by which a page may carry *style*, and no other."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"style-src 'sha256-{digest}'"
