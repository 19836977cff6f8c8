"""Whether the system, the judge or the mix of queries moved a judged rate."""

import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker import errors, rounding, shapes, stats, words
from tracker.services.by import By
from tracker.services.estimates.weeks import begin, following
from tracker.services.fields import Input, Instant, Key, VersionName
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid
from tracker.stats import is_shown
from tracker.storage.base import dump_id
from tracker.storage.deciding import attribution as storage
from tracker.storage.detectors import Detector, name_version, zone_of
from tracker.storage.dialect import lock
from tracker.storage.estimates.cells import day_in, midnight_in

MOST_ANCHORS = 2_000
_AS_ASKED = ("old_judge", "new_judge", "since", "until", "now_since", "now_until")
_NAMES = ("judge", "system", "mix", "truth")
# What can be named; the system by the labels of people alone.
_SOURCES = {"system": "truth", "judge": "judge", "mix": "mix"}


class NewInvestigation(Input):
    """Which two weeks are compared, and by which judges."""

    old_version: VersionName = Field(description="The version of the week then.")
    new_version: VersionName = Field(description="The version of the week now.")
    old_judge: Key = Field(description="The judge of the week then.")
    new_judge: Key = Field(
        description="The judge of the week now; a new model or prompt is another one."
    )
    since: Instant = Field(description="When the week then began.")
    until: Instant = Field(description="When it ended; not part of it.")
    now_since: Instant = Field(description="When the week now began.")
    now_until: Instant = Field(description="When it ended; not part of it.")
    anchors: Annotated[int, Field(ge=1, le=MOST_ANCHORS)] = Field(
        default=400, description="Queries of the week then to draw, with replacement."
    )


class Rate(shapes.Shape):
    """A judged rate: how many of the queries of a week the judge calls right."""

    right: int
    judged: int
    rate: float


class Shift(shapes.Shape):
    """What one source did to the judged rate, now less then."""

    difference: float | None = Field(description="null until every anchor is known.")
    low: float
    high: float
    missing: int = Field(
        description="Anchors that this waits for; until then they count as either."
    )
    is_shown: bool = Field(
        description="Whether the interval lies wholly beyond 1 point. For the system "
        "that is the interval by the truth."
    )
    says: str = Field(description="The same in words.")


class Attribution(shapes.Shape):
    """What moved a judged rate: the system, the judge or the mix of queries."""

    detector: str
    number: int = Field(description="Which investigation of the detector this is.")
    begun_at: Instant
    old_version: str
    new_version: str
    old_judge: str
    new_judge: str
    since: Instant
    until: Instant
    now_since: Instant
    now_until: Instant
    confidence_level: float = Field(
        description="Over all investigations of the detector together."
    )
    level: float = Field(description="That of each interval here.")
    anchors: int
    says: str = Field(description="The answer in a sentence or two.")
    then: Rate
    now: Rate
    judge: Shift
    system: Shift = Field(description="As the judge sees it; what is shown is true.")
    mix: Shift
    truth: Shift = Field(description="What the system did by the labels of people.")


class Anchor(shapes.Shape):
    """A query of the week then, and what is still to be found out of it."""

    query: str
    input: str
    times: int = Field(description="How often it was drawn; it is run once.")
    needs: list[str] = Field(
        description="rerun: put the input to the new version; judge then: ask the new "
        "judge about the output of then; judge now: about the new one; label: have "
        "people label both outputs, blind."
    )


class AnchorList(shapes.Shape):
    """The anchors of an investigation."""

    items: list[Anchor]


def propose_weeks(
    session: Session, detector: Detector, at: datetime
) -> list[tuple[date, date]]:
    """Return the two newest full weeks with verdicts, in order.

    There are fewer where so few have any.
    """
    zone, found = zone_of(detector.time_zone), list[tuple[date, date]]()
    first = begin(day_in(at, zone), "week")
    for _ in range(2):
        end = midnight_in(first, zone)
        newest = storage.find_newest_judged(session, detector.id, end)
        if newest is None:
            break
        first = begin(day_in(newest, zone), "week")
        found.insert(0, (first, following(first, "week")))
    return found


def find_answering(
    session: Session, detector: Detector, since: datetime, until: datetime
) -> tuple[str, str] | None:
    """Return the version and the judge with most verdicts on a span."""
    found = storage.find_most_judged(session, detector.id, since, until)
    if found is None:
        return None
    return name_version(session, detector.id, found.version_id), found.judge


def begin_investigation(
    session: Session, detector: Detector, new: NewInvestigation, by: By
) -> Attribution:
    """Draw anchors for a new investigation; every one that is begun counts.

    Raises ConflictError where a week has no input with a verdict.
    """
    for since, until, field in (
        (new.since, new.until, "until"),
        (new.now_since, new.now_until, "now_until"),
    ):
        if until <= since:
            raise invalid(field, None, "a week must end after it began")
    old, recent = (
        choose_versions(session, detector, name)[0]
        for name in (new.old_version, new.new_version)
    )
    lock(session, f"investigations {detector.id}")
    then = storage.list_judged(session, old, new.old_judge, new.since, new.until)
    right_now, judged_now = storage.count_judged(
        session, recent, new.new_judge, new.now_since, new.now_until
    )
    for week, judged in (("then", len(then)), ("now", judged_now)):
        if not judged:
            raise errors.ConflictError(
                f"in the week {week}, no query of the version that has an input has a "
                "verdict of the judge"
            )
    # Never reused: what changed since may follow what earlier anchors showed.
    drawn = Counter(secrets.SystemRandom().choices(then, k=new.anchors))
    last = storage.find_investigation(session, detector.id)
    found = storage.Investigation(
        detector_id=detector.id,
        number=1 if last is None else last.number + 1,
        begun_at=by.at,
        begun_by=by.name,
        old_version_id=old.id,
        new_version_id=recent.id,
        confidence_level=detector.confidence_level,
        right_then=sum(right for _, right in then),
        judged_then=len(then),
        right_now=right_now,
        judged_now=judged_now,
        anchors=[[*one, times] for one, times in sorted(drawn.items())],
        **{name: getattr(new, name) for name in _AS_ASKED},
    )
    session.add(found)
    session.flush()
    by.record(session, "investigation begun", detector.name, number=found.number)
    return _describe(session, detector, found)


def get_attribution(
    session: Session, detector: Detector, number: int | None = None
) -> Attribution:
    """Return what an investigation says by now, by default the newest."""
    return _describe(session, detector, _get(session, detector, number))


def list_anchors(
    session: Session, detector: Detector, number: int | None = None
) -> AnchorList:
    """Return the anchors of an investigation, and what each still needs."""
    found = _get(session, detector, number)
    items = []
    for row, _, times in _read_anchors(session, found):
        needs = ["judge then"] if row.judged_then is None else []
        if row.now is None:
            needs.append("rerun")
        else:
            needs += ["judge now"] if row.judged_now is None else []
            needs += ["label"] if _truth(row, detector) is None else []
        query = dump_id("iq", row.id)
        items.append(Anchor(query=query, input=row.input, times=times, needs=needs))
    return AnchorList(items=items)


def _get(
    session: Session, detector: Detector, number: int | None
) -> storage.Investigation:
    found = storage.find_investigation(session, detector.id, number)
    if found is None:
        raise errors.NotFoundError(
            "nobody has asked what moved yet" if number is None else "no such number"
        )
    return found


def _read_anchors(
    session: Session, found: storage.Investigation
) -> list[tuple[Any, int, int]]:
    """Return each anchor, whether it was right by the old judge, and its times."""
    drawn = {query_id: more for query_id, *more in found.anchors}
    return [(row, *drawn[row.id]) for row in storage.list_anchors(session, found)]


def _effects(row: Any, was_right: int, detector: Detector) -> dict[str, int | None]:
    """Return what each source did to an anchor: 1, 0 or -1, None if not known yet."""
    old = None if row.judged_then is None else int(row.judged_then == row.then)
    new = None if row.judged_now is None else int(row.judged_now == row.now)
    return {
        "judge": None if old is None else old - was_right,
        "system": None if old is None or new is None else new - old,
        # What is left of the change without it is the mix.
        "mix": None if new is None else new - was_right,
        "truth": _truth(row, detector),
    }


def _truth(row: Any, detector: Detector) -> int | None:
    """Return what the labels say; one of the input tells of both outputs."""
    label_then, label_now = row.label_then, row.label_now
    if row.now is None:
        return None
    if detector.label_of == words.INPUT:
        if row.then == row.now:
            return 0
        label_then = label_now = label_now or label_then
    if label_then is None or label_now is None:
        return None
    return int(label_now == row.now) - int(label_then == row.then)


def _describe(
    session: Session, detector: Detector, found: storage.Investigation
) -> Attribution:
    anchors = sum(times for *_, times in found.anchors)
    level = stats.investigation_level(found.confidence_level, found.number)
    counts: dict[str, Counter[int | None]] = {name: Counter() for name in _NAMES}
    for row, was_right, times in _read_anchors(session, found):
        for name, effect in _effects(row, was_right, detector).items():
            counts[name][effect] += times
    intervals, missing, moved = {}, {}, {}
    for name, one in counts.items():
        # What was erased is missing too.
        missing[name] = anchors - one[1] - one[0] - one[-1]
        moved[name] = (one[1] - one[-1]) / anchors
        intervals[name] = stats.anchored_shift(
            one[1], one[-1], missing[name], anchors, level
        )
    now = _rate(found.right_now, found.judged_now)
    then = _rate(found.right_then, found.judged_then)
    intervals["mix"] = stats.mix_shift(
        (now.right, now.judged), (then.right, then.judged), intervals["mix"]
    )
    moved["mix"] = now.rate - then.rate - moved["mix"]
    shifts = {}
    for name in _NAMES:
        source = "system" if name == "truth" else name
        has_moved = is_shown(intervals[_SOURCES[source]])
        shifts[name] = Shift(
            difference=None if missing[name] else moved[name],
            low=intervals[name][0],
            high=intervals[name][1],
            missing=missing[name],
            is_shown=has_moved,
            says=_say(source, intervals, has_moved=has_moved),
        )
    return Attribution.from_row(
        found,
        detector=dump_id("det", detector.id),
        old_version=name_version(session, found.detector_id, found.old_version_id),
        new_version=name_version(session, found.detector_id, found.new_version_id),
        level=level,
        anchors=anchors,
        says=_sum_up(then, now, intervals, max(missing.values()), anchors),
        then=then,
        now=now,
        **shifts,
    )


def _rate(right: int, judged: int) -> Rate:
    return Rate(right=right, judged=judged, rate=right / judged)


def _sum_up(
    then: Rate,
    now: Rate,
    intervals: Mapping[str, tuple[float, float]],
    missing: int,
    anchors: int,
) -> str:
    """Say how the rate moved, and which sources are named for it."""
    moved = {now.rate < then.rate: "fell", now.rate > then.rate: "rose"}.get(True)
    rates = (f"{100 * one.rate:.1f}" for one in (then, now))
    said = f"The judged rate {moved or 'went'} from {' to '.join(rates)} %. "
    named = [one for one in _SOURCES if is_shown(intervals[_SOURCES[one]])]
    for name in named:
        bounds = rounding.outward(*intervals[_SOURCES[name]], 3)
        low, high = (
            f"{bound.scaleb(2):+}".replace("-", "\N{MINUS SIGN}") for bound in bounds
        )
        said += f"The {name} moved it by {low} to {high} points. "
    others = [one for one in _SOURCES if one not in named]
    if others:
        *first, last = others
        listed = f"{', the '.join(first)} or the {last}" if first else last
        said += f"No move of the {listed} is shown"
        open_ones = f" yet: {missing:,} of {anchors:,} anchors have no answer."
        said += open_ones if missing else "."
    return said.strip()


def _say(
    source: str, intervals: Mapping[str, tuple[float, float]], *, has_moved: bool
) -> str:
    if has_moved:
        return f"the {source} moved"
    if source == "system" and is_shown(intervals["system"]):
        return (
            "the judge likes the new outputs differently; people have not confirmed it"
        )
    return f"no move of the {source} is shown"
