"""Which queries an audit is about, and what it is to find out of them."""

from array import array
from datetime import datetime
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.fields import (
    Input,
    Instant,
    LabelText,
    Level,
    StudyName,
    VersionWanted,
    is_storable,
)
from tracker.services.queries.where import FORMS, MOST, parse_where
from tracker.services.versions import UnknownVersionError, choose_versions
from tracker.services.wording import invalid
from tracker.stats.active import Strata, build_strata
from tracker.stats.active.strata import Ints
from tracker.storage.detectors import Detector
from tracker.storage.labelling.auditing import audits as storage
from tracker.words import BALANCED

MOST_QUERIES = 1_000_000


def _check_storable(value: str) -> str:
    if not is_storable(value):
        raise ValueError("it must be text that can be stored")
    return value


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_text(value: object) -> object:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_whole else value


Condition = Annotated[
    str, Field(min_length=1, max_length=400), AfterValidator(_check_storable)
]
Seed = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(min_length=1, max_length=200),
    AfterValidator(_check_storable),
]


class NewAudit(Input):
    """A new audit; its set of queries is fixed from then on."""

    name: StudyName = Field(description="Unique among the audits of the detector.")
    version: VersionWanted | None = Field(
        default=None,
        description="The version; by default the one that is shown; * for all.",
    )
    since: Instant | None = Field(
        default=None, description="Only queries asked at this instant or later."
    )
    until: Instant | None = Field(
        default=None, description="Only queries asked before this instant."
    )
    where: Annotated[
        list[Condition], BeforeValidator(_as_list), Field(max_length=MOST)
    ] = Field(default=[], description=f"All must hold: {FORMS}.")
    aim: LabelText = Field(
        default=BALANCED, description="balanced, or the class that matters most."
    )
    half_width: Annotated[float, Field(gt=0, lt=0.5)] | None = Field(
        default=None,
        description="Half the width of the interval that the audit aims at.",
    )
    target: Level | None = Field(
        default=None,
        description="Alternatively, the accuracy that the interval must exclude.",
    )
    seed: Seed | None = Field(
        default=None,
        description="Repeats the same draws; by default it is random and secret.",
    )

    @model_validator(mode="after")
    def _check_goal(self) -> "NewAudit":
        if self.half_width is not None and self.target is not None:
            raise ValueError("give half_width or target, not both")
        if self.since and self.until and self.since >= self.until:
            raise ValueError("until must be later than since")
        return self


def choose_version(session: Session, detector: Detector, new: NewAudit) -> int | None:
    """Return the version that the set is of, None for all of them."""
    if new.version == "*":
        return None
    try:
        versions = choose_versions(session, detector, new.version)
    except UnknownVersionError as error:
        raise InvalidInputError.of("version", str(error)) from error
    return versions[0].id if versions else None


def read_set(
    session: Session,
    detector: Detector,
    new: NewAudit,
    version_id: int | None,
    *,
    at: datetime,
) -> tuple[Ints, Strata, Ints, Ints]:
    """Return ids, strata, the stratum of each query, and the labels there are."""
    places = {name: place for place, name in enumerate(detector.classes)}
    # A million numbers in lists would take a hundred megabytes more.
    ids, said, sure, labels = array("q"), array("q"), array("d"), array("q")
    rows = storage.iter_set(
        session,
        detector.id,
        version_id=version_id,
        since=new.since,
        until=new.until,
        where=parse_where(session, detector, new.where, at=at),
    )
    for row in rows:
        if len(ids) == MOST_QUERIES:
            raise invalid("since", None, f"a set has up to {MOST_QUERIES:,} queries")
        ids.append(row.id)
        said.append(places[row.predicted])
        sure.append(np.nan if row.confidence is None else row.confidence)
        none = -1 if row.label is None else len(places)
        labels.append(places.get(row.label, none))
    if not ids:
        raise InvalidInputError.of(
            "version", "no query is in this set; an audit needs at least one"
        )
    strata, index = build_strata(len(places), _whole(said), np.frombuffer(sure))
    known = np.zeros((len(strata.sizes), len(places) + 1), dtype=np.int64)
    given = _whole(labels)
    there = np.flatnonzero(given >= 0)
    np.add.at(known, (index[there], given[there]), 1)
    return _whole(ids), strata, index, known


def _whole(numbers: "array[int]") -> Ints:
    return np.frombuffer(numbers, dtype=np.int64)
