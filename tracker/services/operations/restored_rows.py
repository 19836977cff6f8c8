"""What a row of a backup may hold: what a service would have stored."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
)
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Integer,
    SmallInteger,
    Table,
    Text,
)

from tracker.services.detectors import NewDetector
from tracker.services.fields import (
    ClassName,
    ImageUrl,
    Instant,
    Key,
    KeyName,
    Level,
    Metadata,
    MetadataKey,
    Note,
    Probability,
    Sampling,
    SliceNames,
    StudyName,
    VersionName,
    is_storable,
)
from tracker.services.images import MEDIA_TYPES
from tracker.services.queries.tags import NewTags
from tracker.services.strict_json import load_json
from tracker.services.telling.webhooks import EventTypes
from tracker.services.wording import describe_errors, show
from tracker.storage.base import TextList, UtcDateTime
from tracker.storage.operations import backup as storage
from tracker.words import ROLES, UNCLEAR

_NAME = re.compile(rf"[0-9a-f]{{64}}\.({'|'.join(MEDIA_TYPES)})")
# What holds a class of the detector, and whether it may be UNCLEAR instead.
_ANSWERS = {"predicted": False, "judged": False, "label": True, "answer": True}


def _check_text(value: str) -> str:
    if not is_storable(value):
        raise ValueError("NUL and lone surrogates are not allowed")
    return value


def _check_image_name(value: str) -> str:
    # It becomes a path.
    if not _NAME.fullmatch(value):
        raise ValueError("it must be the name of an image")
    return value


def _json_of(kind: Any) -> Any:
    """Return the type of a text that is *kind*, written as JSON."""
    validate = TypeAdapter(kind).validate_python

    # Queries that follow each other often have the same metadata.
    @lru_cache(maxsize=256)
    def check(text: str) -> str:
        validate(load_json(text), strict=True)
        return text

    return Annotated[str, AfterValidator(check)]


_Text = Annotated[str, AfterValidator(_check_text)]
_ImageName = Annotated[str, AfterValidator(_check_image_name)]
_MetadataText = _json_of(Metadata)
_Role: Any = Literal[ROLES]
_AddedClass = Annotated[tuple[ClassName, Instant], Field(strict=False)]

_TYPES: dict[str, Any] = {
    "accounts.name": KeyName,
    "accounts.role": _Role,
    "api_keys.name": KeyName,
    "api_keys.role": _Role,
    **{
        f"detectors.{name}": field.rebuild_annotation()
        for name, field in NewDetector.model_fields.items()
    },
    "detectors.added_classes": list[_AddedClass],
    "detectors.counted_slices": SliceNames,
    "detectors.production_version": VersionName,
    "device_settings.metadata": _MetadataText,
    "versions.name": VersionName,
    "webhooks.events": EventTypes,
    "waiting_queries.input": Key,
    "waiting_queries.version": VersionName,
    "waiting_queries.metadata": _MetadataText,
    "waiting_queries.image": _ImageName,
    "audits.name": StudyName,
    "audits.confidence_level": Level,
    "queries.key": Key,
    "queries.input": Key,
    "queries.confidence": Probability,
    "queries.metadata": _MetadataText,
    "queries.image": _ImageName,
    "queries.image_url": ImageUrl,
    "queries.tags": _json_of(NewTags.model_fields["tags"].rebuild_annotation()),
    "slices.name": MetadataKey,
    "slice_keys.name": MetadataKey,
    "snapshots.confidence_level": Level,
    "studies.name": StudyName,
    "studies.version": VersionName,
    "studies.note": Note,
    "labels.sampling": Sampling,
    "labels.note": Note,
    "judgements.judge": Key,
    "judgements.explanation": Note,
    "rechecks.note": Note,
    "gold_answers.sampling": Sampling,
    "gold_answers.note": Note,
}

# By the type of a column; the first that fits, and a narrower one comes first.
_KINDS: dict[Any, Any] = {
    UtcDateTime: Instant,
    Boolean: bool,
    Float: float,
    SmallInteger: Annotated[int, Field(ge=-(2**15), lt=2**15)],
    BigInteger: Annotated[int, Field(ge=-(2**63), lt=2**63)],
    Integer: Annotated[int, Field(ge=-(2**31), lt=2**31)],
    Text: _Text,
}


class RowChecker:
    """Checks the rows of all tables, each table after those that it points at."""

    def __init__(self) -> None:
        """Know no detector yet."""
        self._classes: dict[int, frozenset[str]] = {}

    def of_table(self, table: Table) -> Callable[[bytes], str | None]:
        """Return what says of a line what is wrong with it as a row of *table*."""
        names = [column.name for column in table.c]
        types: Any = tuple(map(_type_of, table.c))
        validate = TypeAdapter[Any](
            Annotated[tuple[types], FailFast()],
            config=ConfigDict(strict=True, allow_inf_nan=False),
        ).validate_python
        # By place: this is done for every row.
        whose = names.index("detector_id") if "detector_id" in names else None
        answers = [place for place, name in enumerate(names) if name in _ANSWERS]

        def check(line: bytes) -> str | None:
            row = _parse_row(line, len(names))
            if row is None:
                return "is no row of that table"
            try:
                validate(row)
            except ValidationError as error:
                place = error.errors(include_url=False)[0]["loc"][0]
                return f"has {names[int(place)]} {describe_errors(error)[0].message}"
            if table.name == "detectors":
                known = dict(zip(names, row, strict=True))
                self._classes[known["id"]] = frozenset(known["classes"])
            if whose is None or not answers:
                return None
            classes = self._classes.get(row[whose], frozenset())
            for place in answers:
                if row[place] is not None and row[place] not in classes:
                    name = names[place]
                    if row[place] != UNCLEAR or not _ANSWERS[name]:
                        said = show(row[place])
                        return f"has {name} {said}, which is no class of its detector"
            return None

        return check


def _parse_row(line: bytes, length: int) -> tuple[Any, ...] | None:
    try:
        row = load_json(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(row, list) or len(row) != length:
        return None
    return tuple(row)


def _type_of(column: Column[Any]) -> Any:
    """Return the type of what may stand in *column*."""
    kind = _TYPES.get(f"{column.table.name}.{column.name}")
    if kind is None and isinstance(column.type, JSON | TextList):
        kind = storage.find_json_type(column)
    if kind is None:
        kind = next(
            one for sort, one in _KINDS.items() if isinstance(column.type, sort)
        )
    return kind | None if column.nullable else kind
