"""Audits of a fixed set of queries, whose labels are asked for where they tell most."""

from tracker.stats.active.forecast import (
    Forecast,
    Goal,
    Step,
    foresee,
    imagine,
    imagine_average,
    label_shares,
    labels_needed,
    most_draws,
)
from tracker.stats.active.learning import next_round, round_length
from tracker.stats.active.ledger import OPEN, Ledger
from tracker.stats.active.looks import Look, Standing, look
from tracker.stats.active.rounds import Round
from tracker.stats.active.strata import (
    NO_CONFIDENCE,
    Strata,
    build_strata,
    choose_stratum,
    rank_of,
)

__all__ = [
    "NO_CONFIDENCE",
    "OPEN",
    "Forecast",
    "Goal",
    "Ledger",
    "Look",
    "Round",
    "Standing",
    "Step",
    "Strata",
    "build_strata",
    "choose_stratum",
    "foresee",
    "imagine",
    "imagine_average",
    "label_shares",
    "labels_needed",
    "look",
    "most_draws",
    "next_round",
    "rank_of",
    "round_length",
]
