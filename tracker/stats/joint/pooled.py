"""A limit for the balanced accuracy of classes with equally many labels."""

import math

from tracker.stats.binomial import lower_bound


def pooled_limit(correct: int, labelled: int, error: float) -> float:
    """Return what the mean accuracy exceeds, but for a chance of at most *error*.

    *correct* of *labelled* are those of all classes together, each of which must
    have as many labels as the others.  Then the mean accuracy is the mean of the
    chances of all labels.  Among sums of independent trials with a given mean
    chance, the binomial one has the largest chance to reach s where that mean is
    at most (s - 1) / N: so the exact limit for a binomial s holds once it is no
    higher than that.  It holds even where the accuracies change from label to label.

    W. Hoeffding, Annals of Mathematical Statistics 27 (1956), 713-721.
    """
    if correct <= 1:
        return 0.0
    least = math.nextafter((correct - 1) / labelled, 0.0)
    return min(float(lower_bound(correct, labelled, error)), least)
