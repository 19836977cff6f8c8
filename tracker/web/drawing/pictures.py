"""The content of a query: its image, or its text and metadata."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from flask import url_for

from tracker.http import context
from tracker.services.imports.row_keys import row_number
from tracker.services.queries.queries import load_metadata
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.queries.queries import Query
from tracker.storage.queries.waiting import WaitingQuery

# Shown as text unless the detector names another key, or a query lacks that one.
_TEXT = "text"


@dataclass(frozen=True, slots=True)
class Picture:
    """An address to show, one only to link to, and the rest in lines."""

    shown: str | None
    # The same, small enough for a list.
    thumbnail: str | None
    linked: str | None
    # What was put in where that was a text; the metadata are then without it.
    text: str | None
    metadata: list[tuple[str, str]]
    # The names that the logging program gave it.
    names: list[tuple[str, str]]


def build_picture(detector: Detector, query: Query | WaitingQuery) -> Picture:
    """Return what there is to see of *query*.

    An image elsewhere is shown only where its host is one that pages may load
    from; a browser would refuse any other.
    """
    shown = thumbnail = linked = None
    if query.image is not None:
        query_id = dump_id("iq", query.id)
        shown = url_for("pages.show_image", query_id=query_id)
        thumbnail = url_for("pages.show_thumbnail", query_id=query_id)
    elif isinstance(query, Query) and query.image_url is not None:
        linked = query.image_url
        with suppress(ValueError):
            if urlsplit(linked).netloc in context().settings.image_hosts:
                shown = thumbnail = linked
    details = dict(load_metadata(query) or {})
    fields = (detector.text_field or _TEXT, _TEXT)
    field = next((one for one in fields if isinstance(details.get(one), str)), None)
    text = details.pop(field) if field else None
    metadata = list(_lines("", details))
    return Picture(shown, thumbnail, linked, text, metadata, list(_names(query)))


def _names(query: Query | WaitingQuery) -> Iterator[tuple[str, str]]:
    if isinstance(query, Query) and query.key is not None:
        number = row_number(query.key)
        if number is None:
            yield "Key", query.key
        else:
            yield "From", f"row {number:,} of an imported file"
    if query.input is not None:
        yield "Input", query.input


def _lines(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield each value of metadata with its name, those inside of others too."""
    if isinstance(value, dict) and (value or not name):
        for inner, one in value.items():
            yield from _lines(
                f"{name} \N{RIGHTWARDS ARROW} {inner}" if name else inner, one
            )
    elif (
        name
        and isinstance(value, list)
        and not any(isinstance(one, dict | list) for one in value)
    ):
        yield name, ", ".join(map(_word, value)) or "none"
    elif name:
        yield name, _word(value)


def _word(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    return json.dumps(value, ensure_ascii=False)
