"""Creating, changing and finding detectors."""

from collections.abc import Collection, Container, Mapping, Sequence, Set
from typing import Annotated, Any, TypeVar

from pydantic import Field, create_model
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services import fields
from tracker.services.by import By
from tracker.services.evidence.measure import parse_measure
from tracker.services.evidence.random_queue import draw_seed
from tracker.services.http_client import check_predictor
from tracker.services.versions import (
    UnknownVersionError,
    choose_default_versions,
    choose_versions,
)
from tracker.services.wording import dump_instant, invalid, missing, show
from tracker.shapes import Shape
from tracker.storage import detectors as storage
from tracker.storage import people
from tracker.storage.base import Base, change_rows, dump_id, find_by_id, parse_id
from tracker.storage.estimates import slices
from tracker.storage.estimates.pending import add_batch, count_groups_again
from tracker.storage.estimates.projections import find_calendars_again
from tracker.storage.queries.finding import index_metadata
from tracker.storage.queries.waiting import WaitingQuery
from tracker.storage.tasks import PREDICTION, wake_lane
from tracker.words import NO_ANSWER, UNCLEAR

# The audit log cuts longer questions.
_LONGEST_IN_LOG = 200
# The largest share of a class over the smallest that `tracker.stats` allows.
_MOST_UNEVEN = 1e9
_MAY_BE_NULL = {
    *("target", "stalled_after_hours", "production_version", "predictor"),
    *("text_field", "owner", "label_sampling", "class_shares", "reference"),
    "group_by",
}


class Watched(fields.Input):
    """A further measure of a detector, with its target."""

    measure: fields.MeasureName = Field(
        description="balanced, overall, recall:CLASS or precision:CLASS."
    )
    target: fields.Level = Field(description="The target of the measure.")


class NewDetector(fields.Input):
    """A new detector."""

    name: fields.DetectorName = Field(
        description="Unique among the detectors that are not archived."
    )
    question: fields.Question = Field(
        description="The question for labelers about each input."
    )
    guideline: fields.Guideline = Field(
        default="", description="How labelers answer the question; may have lines."
    )
    classes: fields.Classes = Field(
        default=["YES", "NO"],
        description="2 to 1,000 names, compared exactly as written.",
    )
    confidence_level: fields.ConfidenceLevel = Field(
        default=0.95, description="The confidence level of the intervals."
    )
    target: fields.Level | None = Field(
        default=None, description="The target of the measure."
    )
    measure: fields.MeasureName = Field(
        default="balanced",
        description="The measure of the target: `balanced`, `overall`, `recall:CLASS` "
        "or `precision:CLASS`. Every verdict is about it.",
    )
    also: list[Watched] = Field(
        default=[],
        max_length=4,
        description="Up to four more measures with their targets. The error is split "
        "evenly over `measure` and these.",
    )
    queue_rate: fields.Rate = Field(
        default=1.0, description="The share of queries in the random queue."
    )
    gold_rate: fields.GoldRate = Field(
        default=0.0, description="The share of gold queries in the random queue."
    )
    labels_wanted: fields.LabelsWanted = Field(
        default=1, description="How many different people label each query."
    )
    consensus: fields.Consensus = Field(
        default="majority",
        description="Which label is scored if several people label a query: the "
        "majority once all have answered, or the newest.",
    )
    label_sampling: fields.LabelSampling | None = Field(
        default=None,
        description="The sampling of labels sent without one: `random`, `all` (every "
        "query gets a label sooner or later) or `targeted`. null: not stated, and such "
        "labels decide nothing.",
    )
    label_of: fields.LabelOf = Field(
        default="input",
        description="What a label judges: the `input`, so that all queries with it "
        "share the label, or the `answer` of one query, as in pass or fail.",
    )
    class_shares: fields.ClassParts | None = Field(
        default=None,
        description="The frequency of each class, in any unit. If it is about right, "
        "the deciding interval is narrower, else wider. It applies to versions whose "
        "first label comes later; null: estimated from their first live labels, 100 or "
        "more.",
    )
    reference: fields.Level | None = Field(
        default=None,
        description="The value of the measure below which you want to be told; null "
        "for none. It proves a fall that has few labels before it.",
    )
    group_by: fields.GroupBy | None = Field(
        default=None,
        description="The metadata key that groups queries, such as `metadata.session`; "
        "null for none. A query sent with a `group` is in that group. After a change "
        "queries are counted again in the background.",
    )
    stalled_after_hours: fields.Hours | None = Field(
        default=None,
        description="Send an event after this many hours without a label; null for "
        "never.",
    )
    method: fields.ShownMethod = Field(
        default="joint", description="The method of the interval that pages show first."
    )
    slices: fields.SliceNames = Field(
        default=[],
        description="At most 8 metadata keys to slice the queries by, such as "
        "`metadata.camera`.",
    )
    text_field: fields.MetadataKey | None = Field(
        default=None, description="The metadata key shown as text; null for `text`."
    )
    tags: fields.DetectorTags = Field(
        default=[], description="At most 20 words to filter the list by."
    )
    owner: fields.VersionWanted | None = Field(
        default=None,
        description="The person or team responsible for it; null for nobody.",
    )


def _like_new(base: Any, *without: str, are_optional: bool) -> Any:
    """Return the base of a class with the fields of ``NewDetector``."""
    found: dict[str, Any] = {}
    for name, field in NewDetector.model_fields.items():
        said: dict[str, Any] = {"description": field.description}
        kind: Any = field.annotation
        if are_optional:
            # Not the None that is added, but what may be given instead is checked.
            kind = Annotated[(kind, *field.metadata)] if field.metadata else kind
            kind |= None
            said["default"] = None
        if name not in without:
            found[name] = kind, Field(**said)
    return create_model(base.__name__, __base__=base, **found)


class DetectorChange(
    _like_new(fields.Input, "label_of", are_optional=True),  # type: ignore[misc]
    fields.Input,
):
    """The fields to change; a field that is left out keeps its value.

    Classes can be added, never removed or renamed.  From the first label after the
    change on, the balanced accuracy is the mean of all classes; the history says which
    classes it covers.
    """

    classes: fields.Classes | None = Field(
        default=None, description="The existing classes and the new ones."
    )
    production_version: fields.VersionName | None = Field(
        default=None,
        description="The version that is shown; null: the one that answers most new "
        "queries.",
    )
    predictor: str | None = Field(
        default=None, description="The URL of the model for images."
    )


class AddedClass(Shape):
    """A class that a detector was given later."""

    name: str = Field(serialization_alias="class")
    added_at: fields.Instant


class DetectorVersion(Shape):
    """One trained state of a detector."""

    name: str
    created_at: fields.Instant = Field(description="When its first query arrived.")
    unseen: bool = Field(
        description="Whether the version is stated to be made without the labels it is "
        "tested on."
    )


class VersionChange(fields.Input):
    """The statement about a version."""

    unseen: bool = Field(
        description="Whether the version was made without the labels it is tested on, "
        "even the older ones."
    )


class _Identified(Shape):
    id: str = Field(description="det_ and a number.")


class Detector(_like_new(_Identified, are_optional=False), Shape):  # type: ignore[misc]
    """A classifier under measurement."""

    added_classes: list[AddedClass] = Field(
        description="The classes that were added later."
    )
    production_version: str | None = Field(
        description="The version that is shown by default; null: the one that answers "
        "most new queries."
    )
    shown_version: str | None = Field(
        description="The shown version: the production version, else the one that "
        "answers most queries with new inputs, over the last 24 hours with any."
    )
    shown_since: fields.Instant | None = Field(
        description="When the shown version took over; null for the first version and "
        "for the production version."
    )
    predictor: str | None = Field(description="The URL of the model for images.")
    created_at: fields.Instant
    archived_at: fields.Instant | None
    versions: list[DetectorVersion] = Field(
        description="The versions, in the order they arrived."
    )


def describe_detector(session: Session, detector: storage.Detector) -> Detector:
    return describe_detectors(session, [detector])[0]


def describe_detectors(
    session: Session, detectors: Sequence[storage.Detector]
) -> list[Detector]:
    """Return the API's answers about detectors, in their order."""
    versions: dict[int, list[DetectorVersion]] = {one.id: [] for one in detectors}
    for version in storage.list_versions(session, *versions):
        versions[version.detector_id].append(DetectorVersion.from_row(version))
    shown = choose_default_versions(session, detectors)
    return [
        Detector.from_row(
            one,
            id=dump_id("det", one.id),
            also=[Watched(measure=name, target=target) for name, target in one.also],
            added_classes=[
                AddedClass(name=name, added_at=fields.parse_instant(at))
                for name, at in one.added_classes
            ],
            shown_version=shown[one.id].name if one.id in shown else None,
            shown_since=None if one.production_version else one.shown_since,
            versions=versions[one.id],
        )
        for one in detectors
    ]


def create_detector(session: Session, new: NewDetector, by: By) -> storage.Detector:
    """Add a detector that its creator sees; raises ConflictError for a taken name."""
    _check_measures(new.classes, new.measure, new.also)
    _check_shares(new.classes, new.class_shares)
    detector = storage.Detector(
        **new.model_dump() | {"also": _dump_also(new.also), "target_at": by.at},
        # Without queries all slices are counted.
        counted_slices=list(new.slices),
        class_shares_at=None if new.class_shares is None else by.at,
        queue_seed=draw_seed(),
        created_at=by.at,
        revision=0,
    )
    session.add(detector)
    _flush_name(session, new.name)
    if by.actor.detectors is not None and by.actor.kind == "account":
        session.add(
            people.AccountDetector(account_id=by.actor.row, detector_id=detector.id)
        )
    elif by.actor.detectors is not None:
        session.add(
            people.ApiKeyDetector(api_key_id=by.actor.row, detector_id=detector.id)
        )
    by.record(session, "detector made", detector.name)
    index_metadata(session, detector.id, detector.counted_slices)
    return detector


# Settings on which changes and verdicts depend: the next fold finds and tells them.
# On the target no change depends, so it is the verdict of the shown version alone;
# else each version that a build ever tried would tell a new one.
_DATED_BY = {"also", "classes", "confidence_level", "label_sampling", "measure"}
_DATED_BY |= {"reference", "target"}


def change_detector(
    session: Session,
    detector: storage.Detector,
    change: DetectorChange,
    by: By,
    predictor_hosts: Collection[str] = (),
) -> None:
    """Change the given fields; raises ConflictError for a taken name."""
    changed: dict[str, Any] = {}
    for field in sorted(change.model_fields_set):
        old, new = getattr(detector, field), getattr(change, field)
        if new is None and field not in _MAY_BE_NULL:
            raise InvalidInputError.of(field, "must not be null; leave it out instead")
        if field == "production_version" and new is not None:
            _check_version(session, detector, new)
        if new != old and field == "predictor":
            check_predictor(new, predictor_hosts)
            theirs = WaitingQuery.detector_id == detector.id
            change_rows(session, WaitingQuery, theirs, problem=None)
            wake_lane(session, PREDICTION, str(detector.id), at=by.at)
        if new != old:
            _prepare(session, detector, field, new, by)
        if field == "classes":
            new = _add_classes(detector, new, by)
        if field == "also":
            new = _dump_also(new)
        if new != old:
            changed[field] = {"old": _cut(old), "new": _cut(new)}
            setattr(detector, field, new)
    _check_settings(detector, changed, by)
    _flush_name(session, detector.name)
    _date_again(session, detector, changed.keys() & _DATED_BY, by)
    if changed:
        by.record(session, "detector changed", detector.name, **changed)


def _date_again(
    session: Session, detector: storage.Detector, changed: Set[str], by: By
) -> None:
    """Let the next fold find and tell what depends on the settings that *changed*."""
    if not changed:
        return
    only = choose_versions(session, detector, None) if changed == {"target"} else None
    find_calendars_again(session, detector.id, only)
    add_batch(session, detector.id, created_at=by.at)


def change_version(
    session: Session, detector: storage.Detector, name: str, by: By, *, unseen: bool
) -> DetectorVersion:
    """State whether a version was made without the labels it is tested on."""
    can_be = fields.is_storable(name)
    version = storage.find_version(session, detector.id, name) if can_be else None
    if version is None:
        raise missing("version", name)
    if unseen != version.unseen:
        version.unseen = unseen
        said = {"version": name, "unseen": unseen}
        by.record(session, "version changed", detector.name, **said)
    return DetectorVersion.from_row(version)


def _check_settings(one: storage.Detector, changed: Container[str], by: By) -> None:
    also = [Watched(measure=name, target=target) for name, target in one.also]
    _check_measures(one.classes, one.measure, also)
    if "class_shares" in changed:
        _check_shares(one.classes, one.class_shares)
        one.class_shares_at = by.at
    if "target" in changed:
        one.target_at = by.at


def _dump_also(also: Sequence[Watched]) -> list[list[Any]]:
    return [[one.measure, one.target] for one in also]


def _check_measures(
    classes: Sequence[str], measure: str, also: Sequence[Watched]
) -> None:
    seen = {str(parse_measure(measure, classes))}
    for number, one in enumerate(also):
        field = f"also.{number}.measure"
        name = str(parse_measure(one.measure, classes, field=field))
        if name in seen:
            raise invalid(field, name, "each measure has one target")
        seen.add(name)


def _check_shares(classes: Sequence[str], shares: Mapping[str, float] | None) -> None:
    if shares is None:
        return
    text = ""
    if unknown := [name for name in shares if name not in classes]:
        known = ", ".join(list(classes)[:20])
        text = f"{show(unknown[0])} is not a class; the classes are {known}"
    elif lacking := [name for name in classes if name not in shares]:
        text = f"{show(lacking[0])} must have a share too"
    elif max(shares.values()) > _MOST_UNEVEN * min(shares.values()):
        text = "the largest may be at most a billion times the smallest"
    if text:
        raise InvalidInputError.of("class_shares", text)


def _add_classes(detector: storage.Detector, wanted: list[str], by: By) -> list[str]:
    # The history refers to classes by position, so positions must not change.
    gone = [name for name in detector.classes if name not in wanted]
    if gone:
        raise InvalidInputError.of(
            "classes",
            f"{show(gone[0])} must stay: classes can be added, never removed or "
            "renamed",
        )
    new = [name for name in wanted if name not in detector.classes]
    at = dump_instant(by.at)
    detector.added_classes = [*detector.added_classes, *([name, at] for name in new)]
    return [*detector.classes, *new]


def _prepare(
    session: Session, detector: storage.Detector, field: str, new: Any, by: By
) -> None:
    # Queue the recount or snapshots that the new value needs.
    if field == "slices":
        gone = [name for name in detector.slices if name not in new]
        slices.delete_slices(session, detector.id, gone)
        still = [name for name in detector.counted_slices if name in new]
        detector.counted_slices = still
        index_metadata(session, detector.id, still)
        # A batch, even an empty one, makes the job take up the detector.
        add_batch(session, detector.id, created_at=by.at)
    if field in {"label_sampling", "measure"}:
        # Other labels are compared between slices.
        slices.leave_uncounted(detector)
    if field == "label_sampling":
        # So the newest snapshot rests on other labels than the estimate.
        version = storage.Version
        theirs = version.detector_id == detector.id, version.last_label_at.is_not(None)
        change_rows(session, version, *theirs, run_due_at=by.at)
    is_other_unit = field == "label_sampling" and detector.groups is not None
    if field == "group_by" or is_other_unit:
        count_groups_again(session, detector.id, created_at=by.at)


def _check_version(session: Session, detector: storage.Detector, name: str) -> None:
    try:
        choose_versions(session, detector, name)
    except UnknownVersionError as error:
        raise InvalidInputError.of("production_version", str(error)) from error


def _cut(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _LONGEST_IN_LOG
    return f"{value[:_LONGEST_IN_LOG]}…" if is_long else value


def _flush_name(session: Session, name: str, message: str = "") -> None:
    # The constraint decides, not a SELECT beforehand: two requests may both find
    # the name free.
    try:
        session.flush()
    except IntegrityError as error:
        raise ConflictError(
            message
            or f"a detector named {show(name)} exists already; choose another name or "
            "archive that one"
        ) from error


def archive_detector(session: Session, detector: storage.Detector, by: By) -> None:
    detector.archived_at = detector.archived_at or by.at
    by.record(session, "detector archived", detector.name)


def bring_back_detector(session: Session, detector: storage.Detector, by: By) -> None:
    """Restore a detector; raises ConflictError if another one has taken its name."""
    detector.archived_at, name = None, detector.name
    _flush_name(
        session,
        name,
        f"another detector is now named {show(name)}; rename or archive that one first",
    )
    by.record(session, "detector brought back", name)


_Row = TypeVar("_Row", bound=Base)


def get_by_id(
    session: Session, entity: type[_Row], prefix: str, noun: str, reference: str
) -> _Row:
    number = parse_id(prefix, reference)
    found = None if number is None else find_by_id(session, entity, number)
    if found is None:
        raise missing(noun, reference)
    return found


def get_detector(session: Session, id_or_name: str) -> storage.Detector:
    """Return a detector by its id, or by its name unless archived."""
    detector = None
    # No name begins like an id.
    if id_or_name.startswith("det_"):
        detector_id = parse_id("det", id_or_name)
        if detector_id is not None:
            detector = storage.find_detector(session, detector_id)
    elif fields.is_storable(id_or_name):
        detector = storage.find_detector_by_name(session, id_or_name)
    if detector is None:
        raise missing("detector", id_or_name)
    return detector


def get_open_detector(session: Session, id_or_name: str) -> storage.Detector:
    detector = get_detector(session, id_or_name)
    check_is_open(detector)
    return detector


def check_is_open(detector: storage.AnyDetector) -> None:
    if detector.archived_at is not None:
        raise ConflictError(f"the detector {show(detector.name)} is archived")


def check_class(
    detector: storage.AnyDetector, name: str, *, field: str, may_be_unclear: bool
) -> None:
    if name in detector.classes or (may_be_unclear and name == UNCLEAR):
        return
    known = [*detector.classes[:20], *(["…"] if len(detector.classes) > 20 else [])]
    if may_be_unclear:
        known.append(UNCLEAR)
    raise invalid(field, name, f"it must be one of {', '.join(known)}")


def check_prediction(detector: storage.AnyDetector, name: str, *, field: str) -> None:
    if name != NO_ANSWER:
        check_class(detector, name, field=field, may_be_unclear=False)
