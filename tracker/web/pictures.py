"""What there is to see of a query: an image, or what was written about it."""

import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from flask import url_for

from tracker.http import context
from tracker.services.queries import load_metadata
from tracker.storage.base import dump_id
from tracker.storage.queries import Query


@dataclass(frozen=True, slots=True)
class Picture:
    """An address to show, one only to link to, and the metadata in lines."""

    shown: str | None
    linked: str | None
    metadata: list[tuple[str, str]]


def build_picture(query: Query) -> Picture:
    """Return what there is to see of *query*.

    An image elsewhere is shown only where its host is one that pages may load
    from; a browser would refuse any other.
    """
    shown = linked = None
    if query.image is not None:
        shown = url_for("pages.show_image", query_id=dump_id("iq", query.id))
    elif query.image_url is not None:
        linked = query.image_url
        if _host(query.image_url) in context().settings.image_hosts:
            shown = query.image_url
    return Picture(shown, linked, _lines(load_metadata(query)))


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _lines(metadata: object) -> list[tuple[str, str]]:
    if not isinstance(metadata, dict):
        return []
    return [
        (
            name,
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        )
        for name, value in metadata.items()
    ]
