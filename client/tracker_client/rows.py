"""One record of the spool: a row for the server, and what it takes to send it.

A record is ``RS kind TAB detector TAB key TAB row [TAB image] LF``.  Detector, key and
row are ASCII JSON, the image is base64; so none of them holds a tab, a line feed or the
record separator, and a record that was cut off is told by its missing line feed
(RFC 7464).
"""

from __future__ import annotations

import base64
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from datetime import date, datetime
from json import encoder
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any

QUERY, LABEL, IMAGE, DETECTOR = b"q", b"l", b"i", b"d"
SEPARATOR = b"\x1e"
# What arithmetic with 32-bit floats may make of a probability of 1 or 0.
_ROUNDING = 1e-6


def quote(text: str) -> str:
    """Return *text* as ASCII JSON."""
    return encode_basestring_ascii(text)


_second = ("", "")


def now() -> str:
    """Return the present instant as the API writes it; cheaper than a datetime."""
    global _second  # noqa: PLW0603 - a pair that is replaced as a whole.
    digits = str(time.time_ns())
    known, text = _second
    if digits[:-9] != known:
        known = digits[:-9]
        text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(int(known)))
        _second = (known, text)
    return f"{text}{digits[-9:-3]}Z"


def instant(value: datetime | str) -> str:
    """Return *value* as the API writes instants; ValueError without a time zone.

    Nanoseconds, which pandas has, are rounded down.
    """
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return value.isoformat(timespec="microseconds")


def class_name(value: Any) -> str:
    """Return a class as text: ``True`` is "True", NumPy's 1 is "1"."""
    if isinstance(value, str):
        return value
    item = getattr(value, "item", None)
    return str(value if item is None else item())


def probability(value: Any) -> float | str:
    """Return a confidence; what rounding put beyond 0 or 1 is brought back.

    NaN and infinity are no JSON: they go out as text, for the server to refuse.
    """
    number = float(value)
    if 0.0 <= number <= 1.0:
        return number
    if 1.0 < number <= 1.0 + _ROUNDING:
        return 1.0
    if -_ROUNDING <= number < 0.0:
        return 0.0
    return number if math.isfinite(number) else str(number)


def _plain(value: Any) -> Any:
    """Return what stands for *value* in JSON: NumPy's numbers, dates, text."""
    for name in ("tolist", "item"):
        method = getattr(value, name, None)
        if method is not None:
            return method()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return str(value)


def _make_encoder() -> Callable[[Any], str]:
    """Return what turns a row into JSON; NaN and what JSON lacks are a ValueError."""
    c_make_encoder = getattr(encoder, "c_make_encoder", None)
    if c_make_encoder is None:  # pragma: no cover - PyPy has none.
        return json.JSONEncoder(
            allow_nan=False, separators=(",", ":"), default=_plain
        ).encode
    # JSONEncoder makes one of these for each call, which takes as long as its use.
    chunks = c_make_encoder(
        None, _plain, encode_basestring_ascii, None, ":", ",", False, False, False
    )
    return lambda row: "".join(chunks(row, 0))


_encode = _make_encoder()


def _finite(value: Any) -> Any:
    """Return *value* with its NaN and infinities as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


def encode(row: Mapping[str, Any]) -> str:
    """Return *row* as one line of ASCII JSON; what JSON lacks becomes text."""
    try:
        return _encode(row)
    except (ValueError, TypeError):
        # A second time, for rows are seldom like that and must else be quick.
        return _encode(_finite(json.loads(json.dumps(_keyed(row), default=_plain))))


def _keyed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _keyed(one) for name, one in value.items()}
    return value


def picture(image: bytes | str | os.PathLike[str]) -> bytes:
    """Return the content of an image, which is given as it is or by its path."""
    return image if isinstance(image, bytes) else Path(image).read_bytes()


def record(
    kind: bytes, detector: bytes, key: str, row: str, image: bytes | None = None
) -> bytes:
    """Return one record of the spool; *detector* and *key* are quoted."""
    text = f"\t{key}\t{row}" if image is not None else f"\t{key}\t{row}\n"
    head = SEPARATOR + kind + b"\t" + detector + text.encode()
    return head if image is None else head + b"\t" + base64.b64encode(image) + b"\n"
