"""Populations: which labels an estimate may count together."""

from typing import Annotated

from tracker import words

# A detector's word that labels without a sampling are of queries chosen without regard
# to the answer, or of all queries.
RANDOM_ENOUGH = (words.RANDOM, "all")

Standings = frozenset[str]

LIVE, POOLED = "live", "pooled"
# In the order in which an estimate looks for labels.
POPULATIONS = (LIVE, words.REPLAYED, words.UNSTATED)
PopulationWord = Annotated[str, words.one_of((*POPULATIONS, POOLED))]


def standings_of(population: str, label_sampling: str | None) -> Standings:
    """Return the standings whose labels count in *population*.

    *label_sampling* is the detector's word on labels that do not say how their query
    was chosen.
    """
    is_said = label_sampling in RANDOM_ENOUGH
    if population == LIVE:
        return frozenset({words.RANDOM, *([words.UNSTATED] if is_said else [])})
    if population == words.REPLAYED:
        return frozenset(
            {words.REPLAYED, *([words.REPLAYED_UNSTATED] if is_said else [])}
        )
    if label_sampling is None:
        return frozenset({words.UNSTATED, words.REPLAYED_UNSTATED})
    return frozenset()


def base_standing(sampling: str, *, is_replayed: bool) -> str:
    """Return the standing of a query apart from its group and others' answers."""
    if not is_replayed or sampling == words.TARGETED:
        return sampling
    return words.REPLAYED_UNSTATED if sampling == words.UNSTATED else words.REPLAYED


def population_of(standing: str, label_sampling: str | None) -> str | None:
    """Return the population in which labels of *standing* count, None for none."""
    for population in POPULATIONS:
        if standing in standings_of(population, label_sampling):
            return population
    return None


def targeted_standings(label_sampling: str | None) -> Standings:
    """Return the standings of labels that count as picked on purpose."""
    if label_sampling == words.TARGETED:
        return frozenset({words.TARGETED, words.UNSTATED, words.REPLAYED_UNSTATED})
    return frozenset({words.TARGETED})


def compared_standings(
    label_sampling: str | None, population: str | None = None
) -> Standings:
    """Return the standings of labels by which two versions may be compared.

    Such an input was labelled at random, whatever either version said.  With a
    *population* they are those of that one.
    """
    if population is not None:
        return standings_of(population, label_sampling)
    return standings_of(LIVE, label_sampling) | standings_of(
        words.REPLAYED, label_sampling
    )
