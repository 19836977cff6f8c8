"""Which queries an audit is about, and what it is to find out of them."""

from array import array
from datetime import datetime
from typing import Annotated

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services import fields
from tracker.services.estimates.weeks import Cut
from tracker.services.queries.where import FORMS, MOST, named_version, parse_where
from tracker.services.versions import UnknownVersionError, choose_versions
from tracker.services.wording import invalid
from tracker.settings import TimeZone
from tracker.stats import MISSING, Ints, Strata, build_strata
from tracker.storage.detectors import Detector
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling import labelers
from tracker.storage.queries.finding import Between, Condition, Equals
from tracker.words import BALANCED, PRECISION

MOST_QUERIES = 1_000_000
MOST_JUDGES = 10
# A day is added to the name of a schedule, and that is the name of an audit.
MOST_IN_NAME = 180
CONFIDENCE, JUDGE = "confidence", "judge:"


class EmptySetError(InvalidInputError):
    """There is no query in the set of an audit."""


def _check_use(value: str) -> str:
    if value != CONFIDENCE and not value.startswith(JUDGE):
        raise ValueError("it must be confidence, or judge: and the name of one")
    return value


def _as_list(value: object) -> object:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


ConditionText = Annotated[
    str, Field(min_length=1, max_length=400), AfterValidator(fields.check_text)
]
Use = Annotated[
    str,
    Field(max_length=210),
    AfterValidator(fields.check_text),
    AfterValidator(_check_use),
]
Seed = Annotated[
    str,
    BeforeValidator(lambda it: str(it) if type(it) is int else it),
    Field(min_length=1, max_length=200),
    AfterValidator(fields.check_text),
]


# A span, such as 7d, is counted back from when the audit begins.
When = Annotated[
    datetime | str,
    BeforeValidator(lambda it: it if fields.span_of(it) else fields.parse_instant(it)),
    WithJsonSchema({"type": "string"}),
]


class NewAudit(fields.Input):
    """A new audit, whose set is fixed from then on, or a schedule that makes some."""

    name: fields.StudyName = Field(
        description="Unique among the audits of the detector."
    )
    every: Cut | None = Field(
        default=None,
        description="Makes an audit of the queries of each span: of those asked in it "
        "that arrived until a day after its end. The first span is the next one that "
        "begins.",
    )
    time_zone: TimeZone | None = Field(
        default=None,
        description="Where the days of these spans begin; by default that of the "
        "workspace.",
    )
    labelers: Annotated[list[fields.KeyName], Field(max_length=50)] = Field(
        default=[],
        description="With every, who is asked for the labels: they are assigned equal "
        "parts of each audit, and mailed while it waits.",
    )
    version: fields.VersionWanted | None = Field(
        default=None,
        description="The version; by default the one that is shown, with every all "
        "of them; * for all.",
    )
    since: When | None = Field(
        default=None,
        description="Only queries asked from this instant on, or from this long ago: "
        "12h, 7d.",
    )
    until: When | None = Field(
        default=None,
        description="Only queries asked before this instant, or before this long ago.",
    )
    where: Annotated[
        list[ConditionText], BeforeValidator(_as_list), Field(max_length=MOST)
    ] = Field(default=[], description=f"All must hold: {FORMS}.")
    uses: list[Use] | None = Field(
        default=None,
        description="What it goes by beside the predictions: confidence, and "
        f"judge:NAME of up to {MOST_JUDGES} judges; by default all there is.",
    )
    aim: fields.MeasureName = Field(
        default=BALANCED,
        description="balanced, overall, a class (or recall:CLASS), or precision:CLASS, "
        "whose set is the queries predicted so.",
    )
    half_width: Annotated[float, Field(gt=0, lt=0.5)] | None = Field(
        default=None,
        description="Half the width of the interval that the audit aims at.",
    )
    labels: Annotated[int, Field(ge=1, le=MOST_QUERIES)] | None = Field(
        default=None,
        description="Alternatively, how many labels it takes, however wide the "
        "interval is then.",
    )
    target: fields.Level | None = Field(
        default=None,
        description="Alternatively, the accuracy that the interval must exclude. With "
        "every it is what each span is held against, by default the detector's.",
    )
    seed: Seed | None = Field(
        default=None,
        description="Repeats the same draws; by default it is random and secret.",
    )

    @model_validator(mode="after")
    def _check_goal(self) -> "NewAudit":
        goals = ["half_width", "labels", *([] if self.every else ["target"])]
        given = [name for name in goals if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give {' or '.join(given)}, not both")
        its = ("since", "until", "seed") if self.every else ("time_zone", "labelers")
        for name in its:
            if getattr(self, name):
                word = "no" if self.every else "an"
                raise ValueError(f"{name} is for {word} audit with every")
        if self.every and len(self.name) > MOST_IN_NAME:
            raise ValueError(f"a name with every has up to {MOST_IN_NAME} characters")
        return self

    @property
    def conditions(self) -> list[str]:
        """What is true of the set: a precision is one of the predictions alone."""
        kind, _, of = self.aim.partition(":")
        return [*self.where, *([f"predicted:{of}"] if kind == PRECISION and of else [])]

    def span(self, at: datetime) -> tuple[datetime | None, datetime | None]:
        since = fields.read_when("since", self.since, at=at)
        until = fields.read_when("until", self.until, at=at)
        if since and until and since >= until:
            raise InvalidInputError.of("until", "it must be later than since")
        return since, until


def choose_version(session: Session, detector: Detector, new: NewAudit) -> int | None:
    """Return the version that the set is of, None for all of them."""
    if new.version == "*" or (new.every and new.version is None):
        return None
    field, name = "version", new.version
    if name is None:
        field, name = "where", named_version(new.where)
    try:
        versions = choose_versions(session, detector, name)
    except UnknownVersionError as error:
        raise InvalidInputError.of(field, str(error)) from error
    return versions[0].id if versions else None


def cut_set(
    version_id: int | None, since: datetime | None, until: datetime | None
) -> list[Condition]:
    span = Between("asked_at", since, below=until)
    return [span] if version_id is None else [Equals("version_id", version_id), span]


def read_set(  # noqa: PLR0913 - one argument for each cut of the set.
    session: Session,
    detector: Detector,
    new: NewAudit,
    version_id: int | None,
    *,
    at: datetime,
    arrived_before: datetime | None = None,
) -> tuple[Ints, Strata, Ints, Ints, list[str]]:
    """Return ids, strata, the stratum of each query, the labels, and what is used.

    A set of queries that *arrived before* an instant may be without a judge that is
    to be used: it was described before anybody knew of them.
    """
    places = {name: place for place, name in enumerate(detector.classes)}
    # A million numbers in lists would take a hundred megabytes more.
    ids, said, sure, labels = array("q"), array("q"), array("d"), array("q")
    cut = cut_set(version_id, *new.span(at))
    cut += parse_where(session, detector, new.conditions, at=at)
    if arrived_before is not None:
        cut.append(Between("created_at", below=arrived_before))
    for row in storage.iter_set(session, detector.id, cut):
        if len(ids) == MOST_QUERIES:
            raise invalid("since", None, f"a set has up to {MOST_QUERIES:,} queries")
        ids.append(row.id)
        # What is no class is no answer, and wrong whatever the label is.
        said.append(places.get(row.predicted, len(places)))
        sure.append(np.nan if row.confidence is None else row.confidence)
        none = -1 if row.label is None else len(places)
        labels.append(places.get(row.label, none))
    if not ids:
        raise EmptySetError.of(
            "version", "no query is in this set; an audit needs at least one"
        )
    may_lack = arrived_before is not None
    uses, verdicts = _read_verdicts(session, detector, _whole(ids), new, may_lack)
    confidence = np.frombuffer(sure)
    if new.uses is None or CONFIDENCE in new.uses:
        uses = [CONFIDENCE, *uses]
    else:
        confidence = np.full_like(confidence, np.nan)
    strata, index = build_strata(len(places), _whole(said), confidence, verdicts)
    known = np.zeros((len(strata.sizes), len(places) + 1), dtype=np.int64)
    given = _whole(labels)
    there = np.flatnonzero(given >= 0)
    np.add.at(known, (index[there], given[there]), 1)
    return _whole(ids), strata, index, known, uses


def _read_verdicts(
    session: Session, detector: Detector, ids: Ints, new: NewAudit, may_lack: bool
) -> tuple[list[str], Ints]:
    """Return the judges that said something of the set, and what, a column each."""
    judges = [*labelers.list_judges(session, detector.id)]
    if new.uses is not None:
        judges = [one for one in judges if f"{JUDGE}{one}" in new.uses]
    if len(judges) > MOST_JUDGES:
        raise invalid("uses", None, f"name up to {MOST_JUDGES} of {len(judges)} judges")
    columns = {name: place for place, name in enumerate(judges)}
    places = {name: place for place, name in enumerate(detector.classes)}
    found = array("q")
    for row in labelers.iter_verdicts(session, detector.id, judges):
        found.extend((row.query_id, columns[row.judge], places[row.judged]))
    query, column, verdict = _whole(found).reshape(-1, 3).T
    at = np.minimum(np.searchsorted(ids, query), len(ids) - 1)
    there = ids[at] == query
    verdicts = np.full((len(ids), len(judges)), MISSING)
    verdicts[at[there], column[there]] = verdict[there]
    speaks = (verdicts != MISSING).any(axis=0)
    uses = [f"{JUDGE}{judges[place]}" for place in np.flatnonzero(speaks)]
    silent = {*(new.uses or ())} - {CONFIDENCE, *uses}
    if silent and not may_lack:
        wrong = "it has no verdict on any query of this set"
        raise invalid("uses", min(silent), wrong)
    return uses, verdicts[:, speaks]


def _whole(numbers: "array[int]") -> Ints:
    return np.frombuffer(numbers, dtype=np.int64)
