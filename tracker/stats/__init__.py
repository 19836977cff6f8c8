"""Intervals for accuracies: numbers in, numbers out.

Other rooms may use the names that are imported here, and no others.
"""

from .active.forecast import (
    Forecast,
    foresee,
    foresee_labels,
    imagine,
    imagine_average,
    label_shares,
    labels_needed,
    without_judges,
)
from .active.learning import carry_over, next_round, round_length
from .active.ledger import OPEN, Goal, Ledger, Step, empty_ledger
from .active.looks import Look, Standing, look
from .active.rounds import UNIT, Round
from .active.series import (
    bound_for_late,
    change_since,
    list_on_average,
    log_evidence_below,
)
from .active.strata import (
    MISSING,
    Ints,
    Strata,
    build_strata,
    choose_stratum,
    rank_of,
)
from .approximations import balanced_normal
from .arguments import MOST_LABELS, Floats, shared_level, tail_share
from .attribution import (
    anchored_shift,
    investigation_level,
    is_shown,
    mix_shift,
)
from .certification import chance_to_certify, labels_to_certify, next_class
from .coverage import (
    MOST_OUTCOMES,
    IntervalFunction,
    balanced_coverage,
    chances_of_ever_missing,
    count_likely,
    only_likely,
    simulated_coverage,
)
from .evidence.changes import (
    AccuracyChange,
    family_level,
    find_changes,
    level_since,
    replay_level,
)
from .evidence.intervals import (
    anytime,
    balanced_anytime,
    log_evidence_above,
)
from .evidence.paired import (
    PairedDecision,
    decide,
    paired_anytime,
)
from .exact import (
    Interval,
    Tail,
    TailSide,
    balanced_accuracy,
    balanced_union,
    binomial_tail,
    class_accuracy,
    clopper_pearson,
    lower_bound,
    upper_bound,
    window_intervals,
)
from .joint.balanced import (
    balanced_joint,
    joint_is_costly,
)
from .joint_paired import joint_paired_difference
from .measures import (
    WINDOW_METHOD,
    f1_intervals,
    f1_scores,
    macro_f1_interval,
    macro_precision_interval,
    overall_interval,
    precision_intervals,
)
from .methods import (
    METHODS,
    Method,
    balanced_interval,
    class_intervals,
    completed_interval,
    count_unanswered,
    get_method,
)
from .monitoring.labelers import (
    ACCEPTABLE_RATE,
    cohen_kappa,
    cohen_kappa_interval,
    is_careless,
)
from .monitoring.slices import (
    TOO_WIDE,
    SliceEvidence,
    SliceJudgement,
    SliceState,
    SliceWatch,
    compare_once,
    judge_slices,
    slice_intervals,
)
from .monitoring.thresholds import (
    burst_look,
    bursts_are_beyond_doubt,
    calibration_error,
    find_bursts,
    lowest_in_band,
    lowest_threshold,
    simultaneous_band,
)
from .paired import (
    boxed_paired_difference,
    mcnemar,
    paired_difference,
    unpaired_difference,
)
from .planning import (
    balanced_labels_to_decide,
    labels_to_narrow,
    labels_to_reach_balanced_width,
    labels_to_reach_width,
    pairs_to_decide,
)
from .rechecks import (
    Cell,
    Drawn,
    draw_times,
    label_error_bound,
    recheck_accuracies,
)
from .resampling import (
    bootstrap_percentile,
    bootstrap_t,
    corrected_632,
    corrected_632_plus,
    point_632,
    point_632_plus,
    seeds_t,
)
from .samples import accuracy_interval, balanced_accuracy_interval
from .spans import finite_anytime, span_share
