"""Two versions of a detector on the same inputs."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from tracker import words
from tracker.storage.base import on_postgresql
from tracker.storage.queries.queries import Query, has_standing


class PairCount(NamedTuple):
    """How many inputs have this label, and which version was right about them."""

    label: str
    pairs: int
    gained: int
    lost: int
    # Both versions were right.
    both: int = 0


def count_pairs(  # noqa: PLR0913 - which versions, and whose labels.
    session: Session,
    detector_id: int,
    *,
    old_id: int,
    new_id: int,
    standings: Collection[str],
    has_own: bool = False,
) -> Sequence[PairCount]:
    """Count the inputs that both versions were given, by label.

    Of these the new version *gained* those that only it was right about, and *lost*
    those that only the old one was.  An input counts once either of its queries has
    a label with one of *standings*.  Of the queries that one version has of an input,
    the first counts, and of the inputs of a group the one that counts for the old
    version.  With *has_own* each query is judged by its own label, and an input counts
    once both have one, under that of the old version.
    """
    pairs = _pair_up(detector_id, old_id, new_id, standings)
    # The truth belongs to the input, so that two labels say the same.
    either = sa.func.coalesce(pairs.c.old_label, pairs.c.new_label)
    known = sa.select(pairs, either.label("label")).where(either.is_not(None))
    labelled = known.cte("labelled").c
    was_right = labelled.old_predicted == labelled.label
    is_right = labelled.new_predicted == labelled.label
    has_both: sa.ColumnElement[bool] = sa.true()
    if has_own:
        is_right = labelled.new_predicted == labelled.new_label
        has_both = labelled.old_label.is_not(None) & labelled.new_label.is_not(None)
    kinds = is_right & ~was_right, was_right & ~is_right, was_right & is_right
    numbers = [sa.func.count(sa.case((kind, 1))) for kind in kinds]
    statement = sa.select(labelled.label, sa.func.count(), *numbers)
    statement = statement.where(has_both).group_by(labelled.label)
    return [PairCount(*row) for row in session.execute(statement)]


def count_open_pairs(
    session: Session,
    detector_id: int,
    old_id: int,
    new_id: int,
    *,
    has_own: bool = False,
) -> int:
    """Count the inputs of both versions without a label, with *has_own* without two."""
    old, new = aliased(Query), aliased(Query)
    open_old, open_new = (
        one.label.is_(None) | one.standing.in_((words.TARGETED, words.OPEN))
        for one in (old, new)
    )
    is_open = open_old | open_new if has_own else open_old & open_new
    statement = sa.select(sa.func.count()).where(
        old.detector_id == detector_id,
        new.detector_id == detector_id,
        old.version_id == old_id,
        new.version_id == new_id,
        old.input == new.input,
        ~old.is_repeat,
        ~new.is_repeat,
        is_open,
    )
    return session.scalars(statement).one()


def _pair_up(
    detector_id: int, old_id: int, new_id: int, standings: Collection[str]
) -> sa.CTE:
    of_either = (
        Query.detector_id == detector_id,
        Query.version_id.in_((old_id, new_id)),
        Query.input.is_not(None),
        ~Query.is_repeat,
    )
    # Most inputs may have no label, and need not be looked at twice.
    inputs = sa.select(Query.input).where(*of_either, has_standing(Query, standings))
    # Of what was stored before repeats were told apart, the newest.
    last = (
        sa.func.max(sa.case((Query.version_id == one, Query.id))).label(name)
        for name, one in (("old", old_id), ("new", new_id))
    )
    newest = (
        sa.select(*last)
        .where(*of_either, Query.input.in_(inputs))
        .group_by(Query.input)
        .cte("newest")
    )
    old, new = aliased(Query), aliased(Query)
    return (
        sa.select(
            sa.case((has_standing(old, standings), old.label)).label("old_label"),
            sa.case((has_standing(new, standings), new.label)).label("new_label"),
            old.predicted.label("old_predicted"),
            new.predicted.label("new_predicted"),
        )
        .select_from(newest)
        .join(old, old.id == newest.c.old)
        .join(new, new.id == newest.c.new)
        .where(on_postgresql(old.detector_id == detector_id))
        .where(on_postgresql(new.detector_id == detector_id))
        .where(_is_unit(old))
        .cte("pairs")
    )


def _is_unit(query: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a query is not left out for another of its group.

    Of one with an own label and one with a replayed label, the own one counts.
    """
    own = aliased(Query)
    has_own = sa.exists(own.id).where(
        own.detector_id == query.detector_id,
        own.group == query.group,
        own.standing.in_((words.RANDOM, words.UNSTATED)),
        own.version_id == query.version_id,
    )
    standing = sa.func.coalesce(query.standing, "")
    is_replayed = standing.in_((words.REPLAYED, words.REPLAYED_UNSTATED))
    counts = (standing != words.GROUPED) & (~is_replayed | ~has_own)
    return sa.or_(query.group.is_(None), counts)


def differs_from(
    detector_id: int,
    version_id: int,
    standings: Collection[str],
    *,
    is_counted: bool | None = None,
    has_own: bool = False,
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that another version did better or worse at a query.

    Its input was put to that version too, and exactly one of the two is right.  With
    *is_counted* they are just those that a comparison of the two has gained or lost by
    labels with one of *standings*, or all others.
    """
    other = aliased(Query)
    tests = [
        other.detector_id == detector_id,
        other.version_id == version_id,
        other.input == Query.input,
        ~other.is_repeat,
        (other.predicted == (other.label if has_own else Query.label))
        != (Query.predicted == Query.label),
    ]
    if is_counted is not None:
        this, that = has_standing(Query, standings), has_standing(other, standings)
        # A label counts for both once it is scored of one.
        either = this | (other.label.is_not(None) & that)
        scored = _is_unit(other) & (this & that if has_own else either)
        tests.append(scored if is_counted else ~scored)
    found = sa.select(sa.literal(1)).select_from(other).where(*tests).correlate(Query)
    are_clear = Query.label != words.UNCLEAR, found.exists()
    return [Query.input.is_not(None), ~Query.is_repeat, *are_clear]
