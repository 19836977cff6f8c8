"""Convert cells as people write them to the values of fields."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any
from unicodedata import normalize
from zoneinfo import ZoneInfo

from tracker.services.fields import INSTANT, METADATA_BYTES, load_json
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.rows import IMAGE, PROBABILITY
from tracker.services.imports.reading.shapes import LONGEST_NAME, as_name, only
from tracker.services.imports.reports import Noted
from tracker.services.wording import show
from tracker.storage.detectors import Detector
from tracker.words import NO_ANSWER, UNCLEAR

_LOCAL = re.compile(
    r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?"
    r"( ?([Zz]|[+-]\d\d:?\d\d))?",
    re.ASCII,
)
_NANOSECONDS = re.compile(r"\.\d{7}", re.ASCII)
_EPOCH = re.compile(r"\d{9,13}(\.\d{1,9})?", re.ASCII)


class TimeReader:
    """Reads instants, also in a time zone, by a format and since 1970."""

    def __init__(self, name: str, choices: Choices) -> None:
        self._name = name
        self._zone_name = choices.time_zone
        self._zone = ZoneInfo(choices.time_zone) if choices.time_zone else None
        self._format = choices.time_format

    def __call__(self, values: list[Any], noted: Noted) -> list[Any]:
        if self._format is None and _fit(INSTANT.fullmatch, values):
            return values
        return [self._read(value, noted) for value in values]

    def _read(self, value: Any, noted: Noted) -> Any:
        if isinstance(value, str):
            return self._read_text(value.strip(), value, noted)
        if isinstance(value, date):
            if not isinstance(value, datetime):
                value = datetime.combine(value, time())
            return self._place(value, noted)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._read_epoch(float(value), value, noted)
        return value

    def _read_text(self, bare: str, value: str, noted: Noted) -> Any:
        if self._format is not None:
            try:
                found = datetime.strptime(bare, self._format)  # noqa: DTZ007 - placed.
            except ValueError as error:
                must = f"it must have the time format {self._format}"
                raise not_right(value, must) from error
            return self._place(found, noted)
        if INSTANT.fullmatch(bare):
            return bare
        if _EPOCH.fullmatch(bare):
            return self._read_epoch(float(bare), value, noted)
        if _LOCAL.fullmatch(bare):
            try:
                found = datetime.fromisoformat(bare.upper().replace(" +", "+"))
            except ValueError:
                return value
            if _NANOSECONDS.search(bare):
                noted[self._name, "nanoseconds", "microseconds, rounded down"] += 1
            return self._place(found, noted)
        return value

    def _read_epoch(self, number: float, value: object, noted: Noted) -> Any:
        for scale, unit in ((1, "seconds"), (1_000, "milliseconds")):
            # From 1973 to 2286.
            if 1e8 <= number / scale < 1e10:
                noted[self._name, f"{unit} since 1970", "an instant"] += 1
                return datetime.fromtimestamp(number / scale, UTC)
        return value

    def _place(self, found: datetime, noted: Noted) -> datetime:
        if found.tzinfo is not None:
            return found
        # Of the hour that clocks repeat the first is meant, and the one that they skip
        # moves forward.
        zone = self._zone_name or "UTC"
        placed = found.replace(tzinfo=self._zone or UTC, fold=0)
        if placed.utcoffset() != placed.replace(fold=1).utcoffset():
            what = f"a time that is twice or never in {zone}"
            noted[self._name, what, "the first one, or an hour later"] += 1
            placed = placed.astimezone(UTC)
        noted[self._name, "a time without a zone", f"one in {zone}"] += 1
        return placed


def _fit(test: Callable[[Any], object], values: Iterable[Any]) -> bool:
    try:
        return all(map(test, values))
    except TypeError:
        return False


def not_right(value: object, message: str) -> ValueError:
    return ValueError(f"{show(value)} is not right: {message}")


# Reads all the values of a column, none of which is None, and notes what it read as
# something else; ValueError says what is wrong.
Reader = Callable[[list[Any], Noted], list[Any]]

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d{1,6})?", re.ASCII)
_BLANK = frozenset({"", "nan", "null", "none"})
_TRUE = frozenset({"true", "yes", "y", "t"})
_FALSE = frozenset({"false", "no", "n", "f"})
_NEARLY = 1e-6
_MOST_KEPT = 10_000
_LONGEST_METADATA = 4 * METADATA_BYTES


def single(value: Any) -> Any:
    """Return the element of a list of one, anything else as it is."""
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value


def as_text(value: Any) -> str | None:
    """Return a value that is one word or number as text; None for a NaN.

    Raises ValueError for anything else.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int | Decimal):
        return str(value)
    raise not_right(value, "it must be text or a number")


class ClassReader:
    """Reads a class by its exact name, else by the only name that matches loosely."""

    def __init__(
        self, detector: Detector, settled: Mapping[str, str], name: str, *, comma: bool
    ) -> None:
        self._name = name
        self._settled = settled
        self._comma = comma
        self._classes = [*detector.classes, *([UNCLEAR] if name == "label" else [])]
        self._exact = frozenset(self._classes)
        self._is_binary = len(detector.classes) == 2
        self._known: dict[str | None, str | None] = {}

    def __call__(self, values: list[Any], noted: Noted) -> list[Any]:
        if not self._settled and _fit(self._exact.__contains__, values):
            return values
        texts = list(map(as_text, values))
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        for text, count in Counter(texts).items():
            if text not in self._known:
                self._known[text] = self._find(text)
            found = self._known[text]
            if found != text and (text or "").strip():
                nothing = "no label" if self._name == "label" else "nothing"
                noted[self._name, text or "NaN", found or nothing] += count
        return [self._known[text] for text in texts]

    def _find(self, text: str | None) -> str | None:
        if text is None:
            return None
        bare = text.strip()
        for settled in (text, bare):
            if settled in self._settled:
                return self._settled[settled]
        for exact in (text, bare):
            if exact in self._exact:
                return exact
        same = _plain(bare)
        alike = [one for one in self._classes if _plain(one) == same]
        if not alike and same in _BLANK:
            return None
        number, truth = _number(bare, comma=self._comma), self._truth(same)
        numbers = [
            one
            for one in self._classes
            if number is not None and _number(one, comma=False) == number
        ]
        truths = [
            one
            for one in self._classes
            if truth is not None and self._truth(one.casefold()) is truth
        ]
        for found in (alike, numbers, truths):
            if len(found) == 1:
                return found[0]
            if found:
                shown = " and ".join(map(show, found))
                raise ValueError(
                    f"{show(text)} could be {shown}; say which, as in class "
                    f"{bare}={found[0]}"
                )
        # Checked, and refused, like any other class.
        return text

    def _truth(self, text: str) -> bool | None:
        # Among many classes a 1 is a code rather than a truth value.
        number = _number(text, comma=False) if self._is_binary else None
        if text in _TRUE or number == 1:
            return True
        return False if text in _FALSE or number == 0 else None


def _plain(text: str) -> str:
    return normalize("NFC", text).casefold()


def _number(text: str, *, comma: bool) -> Decimal | None:
    if comma and _COMMA.fullmatch(text):
        text = text.replace(",", ".")
    return Decimal(text) if len(text) < 60 and _NUMBER.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class ConfidenceReader:
    """Reads numbers from 0 to 1, percentages, and numbers rounded past 0 or 1."""

    comma: bool
    # Then only percentages are texts.
    is_strict: bool
    is_percent: bool

    def __call__(self, values: list[Any], noted: Noted) -> list[Any]:
        if self.is_percent:
            bare = (str(value).strip().removesuffix("%") for value in values)
            return [self.read_text(f"{value}%", noted) for value in bare]
        if set(map(type, values)) == {float} and all(0 <= one <= 1 for one in values):
            return values
        if not (self.comma or self.is_strict) and _fit(_NUMBER.fullmatch, values):
            numbers = list(map(float, values))
            if all(0 <= one <= 1 for one in numbers):
                return numbers
        return [self._read(value, noted) for value in values]

    def _read(self, value: Any, noted: Noted) -> Any:
        if isinstance(value, str):
            if self.is_strict and not value.rstrip().endswith("%"):
                return value
            value = self.read_text(value, noted)
        elif isinstance(value, Decimal):
            value = float(value)
        if type(value) is float and not 0 <= value <= 1:
            nearest = 0.0 if value < 0 else 1.0
            if abs(value - nearest) <= _NEARLY:
                noted["confidence", f"nearly {nearest:.0f}", f"{nearest:.0f}"] += 1
                return nearest
        if type(value) in {int, float} and 1 < value <= 100 and not self.is_strict:
            way = "if it is a percentage, add --percent"
            raise not_right(value, f"it must be a number from 0 to 1; {way}")
        return value

    def read_text(self, text: str, noted: Noted) -> float:
        """Return a number or a percentage; ValueError for what is neither."""
        bare = text.strip()
        number = _number(bare.removesuffix("%").rstrip(), comma=self.comma)
        if number is None:
            raise not_right(text, "it must be a number from 0 to 1, such as 0.97")
        if not bare.endswith("%"):
            return float(number)
        noted["confidence", "a percentage", "a number from 0 to 1"] += 1
        return float(number / 100)


def read_weights(
    field: str, values: list[Any], noted: Noted, *, comma: bool
) -> list[Any]:
    """Return weights as numbers; of the chance at which a row was drawn, 1 / chance."""
    found = []
    for value in values:
        number = _number(as_text(value) or "", comma=comma)
        if number is None:
            raise not_right(value, "it must be a number")
        found.append(float(number))
    if field == PROBABILITY:
        if wrong := [one for one in found if not 0 < one <= 1]:
            must = "the chance at which a row was drawn is above 0 and at most 1"
            raise not_right(wrong[0], must)
        found = [1 / one for one in found]
    noted["weight", "weights", "a ratio, which has no interval"] += len(found)
    return found


def read_images(choices: Choices, values: list[Any], _noted: Noted) -> list[Any]:
    """Return the names of images as those in the store, None for a blank one."""
    stored, names = choices.images or {}, list(map(str, values))
    for name in names:
        if name.strip() and name not in stored:
            wrong = choices.wrong_images.get(name, "there is no such image")
            raise ValueError(f"{show(name)}: {wrong}")
    return [stored[name] if name.strip() else None for name in names]


def read_texts(values: list[Any], _noted: Noted) -> list[Any]:
    if set(map(type, values)) == {str}:
        return values
    return list(map(as_text, values))


def read_trimmed(field: str, values: list[Any], noted: Noted) -> list[Any]:
    """Return texts without the blanks around them, None for nothing else."""
    texts = read_texts(values, noted)
    bare = [one.strip() or None if isinstance(one, str) else one for one in texts]
    if changed := sum(one != text for one, text in zip(bare, texts, strict=True)):
        noted[field, "blanks around it", "left out"] += changed
    return bare


def read_names(field: str, values: list[Any], noted: Noted) -> list[Any]:
    """Return texts, and of what is nested or too long for a name a hash of it."""
    if set(map(type, values)) == {str} and max(map(len, values)) <= LONGEST_NAME:
        return read_trimmed(field, values, noted)
    long = sum(isinstance(one, str) and len(one) > LONGEST_NAME for one in values)
    if long:
        noted[field, f"texts of more than {LONGEST_NAME} characters", "hashes"] += long
    return [
        as_name(only(one))
        if isinstance(one, dict | list | str)
        else read_texts([one], noted)[0]
        for one in values
    ]


def read_metadata_cells(values: list[Any], _noted: Noted) -> list[Any]:
    """Return what the texts say as JSON, and what is none as it is."""
    found = list(values)
    for place, text in enumerate(values):
        if not isinstance(text, str):
            continue
        # Before it is parsed, which takes many times its size; blanks between its
        # parts do not count where it is checked.
        try:
            if len(text) > _LONGEST_METADATA:
                raise ValueError(f"it has {len(text):,} characters")
            found[place] = load_json(text)
        except ValueError as error:
            must = f"it must be a JSON object ({error})"
            raise not_right(text, must) from error
    return found


def as_metadata(value: Any) -> Any:
    """Return the value of an unknown column as JSON holds it; None for none."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, str | int | float | list | dict) or value is None:
        return value
    return str(value)


def build_readers(
    detector: Detector, choices: Choices, *, comma: bool, is_strict: bool
) -> dict[str, Reader]:
    """Return what reads the cells of each field that has to be read.

    Where it is *is_strict*, which the API's own documents are, a value of another
    type is wrong, as it is in every other body.
    """
    readers: dict[str, Reader] = {
        "confidence": ConfidenceReader(comma, is_strict, is_percent=choices.percent),
        "metadata": read_metadata_cells,
    }
    none = dict.fromkeys(choices.no_answer, NO_ANSWER)
    classes = {"predicted": choices.classes | none, "label": choices.classes}
    for name, settled in classes.items():
        readers[name] = ClassReader(detector, settled, name, comma=comma)
    for name in ("asked_at", "labelled_at"):
        readers[name] = TimeReader(name, choices)
    for name in ("weight", PROBABILITY):
        readers[name] = partial(read_weights, name, comma=comma)
    if choices.images is not None:
        readers[IMAGE] = partial(read_images, choices)
    if is_strict:
        del readers["metadata"], readers["weight"]
        for name in ("predicted", "label", "asked_at", "labelled_at"):
            readers[name] = partial(_read_texts_by, readers[name])
        return readers
    readers |= dict.fromkeys(("note", "image_url"), read_texts)
    for name in ("key", "version", "labeler", "sampling"):
        readers[name] = partial(read_trimmed, name)
    return readers | {name: partial(read_names, name) for name in ("input", "group")}


def _read_texts_by(read: Reader, values: list[Any], noted: Noted) -> list[Any]:
    return read(values, noted) if set(map(type, values)) <= {str} else values
