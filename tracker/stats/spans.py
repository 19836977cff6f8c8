"""How many queries of a span of time are right, at every look and for all spans."""

from .arguments import checked_count_pair, checked_fraction
from .laws import hypergeom

# Tails and likelihoods are off by up to 1e-9 of their value, so a number of correct
# queries is ruled out only by evidence that has this to spare.
_MARGIN = 1.0 - 1e-7
# Queries in a set up to which the tails have been checked against 40 digits.
_LARGEST_SET = 10**7
# Per place: what a share is divided by, what is added to the place, and the number of
# places after the birth of a version.  Days are many, weeks and months are few.
_LAWS = {True: (6.2, 31, 7_304), False: (6.5, 4, 1_044)}
_BEFORE = 60


def span_share(place: int, *, are_days: bool) -> float:
    """Return the part of the error that a span of time has; the sum of all is below 1.

    The *place* is the number of spans from the one in which a version was born,
    negative before it.  Beyond some 20 years nothing is claimed, and the part is 0.
    """
    divisor, added, places = _LAWS[are_days]
    if not -places <= place < places:
        return 0.0
    if place < 0:
        return 1.0 / (_BEFORE * (abs(place) + added - are_days))
    return 1.0 / (divisor * (place + added))


def finite_anytime(k: int, m: int, size: int, error: float) -> tuple[int, int]:
    """Return how many of a whole set may be correct, to be looked at at any time.

    The *size* queries of the set are in a random order, *k* of the first *m* are
    correct; sought is how many of all *size* are.  The ranges after m = 1, 2, 3... hold
    the true number *all at once* with a probability of at least 1 - *error*, floating
    point included, whatever rule decides when to stop, and even if the mistakes come
    together.  A number is kept while the likelihood of the numbers above it, on
    average, is less than 2 / *error* times its own, and that of those below it too:
    such ratios are martingales if the number is the true one.

    Raises ValueError unless 0 <= k <= m <= size <= 10**7, 1 <= size and 0 < error < 1.

    J. Ville, Etude critique de la notion de collectif (1939).
    """
    k, m = checked_count_pair(k, m)
    m, size = checked_count_pair(m, size)
    if not 1 <= size <= _LARGEST_SET:
        raise ValueError(f"size must lie between 1 and 10**7, not {size!r:.80}")
    needed = 2.0 / checked_fraction("error", error)
    fewest = _fewest_at_every_look(k, m, size, needed)
    return fewest, size - _fewest_at_every_look(m - k, m, size, needed)


def _fewest_at_every_look(k: int, m: int, size: int, needed: float) -> int:
    # With the likeliest number nothing above it is likelier.
    refuted, kept = k - 1, min(k * (size + 1) // m if m else size, size - m + k)
    kept = max(kept, k)
    while kept - refuted > 1:
        middle = (refuted + kept) // 2
        # The likelihoods of all numbers above it are a tail too: of the places of
        # m + 1 out of size + 1, the one behind k others lies beyond.
        above = hypergeom.cdf(k, size + 1, middle + 1, m + 1) * (size + 1) / (m + 1)
        own = hypergeom.pmf(k, size, middle, m) * (size - middle)
        # NaN compares as false, so what cannot be computed refutes nothing.
        if above * _MARGIN >= needed * own:
            refuted = middle
        else:
            kept = middle
    return kept
