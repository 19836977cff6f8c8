"""What the rows of the tables must say, by rules written a second time."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

Tables = dict[str, list[dict[str, Any]]]
Counts = dict[str, tuple[int, int]]

# The standings that count, by population and by whether the detector says that labels
# without a sampling are as good as random ones; None for no word on them.
_COUNTED = {
    ("live", True): {"random", "unstated"},
    ("live", False): {"random"},
    ("live", None): {"random"},
    ("replayed", True): {"replayed", "replayed_unstated"},
    ("replayed", False): {"replayed"},
    ("replayed", None): {"replayed"},
    ("unstated", True): set(),
    ("unstated", False): set(),
    ("unstated", None): {"unstated", "replayed_unstated"},
}
_WORDS = {"random": True, "all": True, "targeted": False, None: None}
# Of one group, version and population one query at most has one of these.
_UNITS = {
    "random": "random",
    "unstated": "unstated",
    "replayed": "replayed",
    "replayed_unstated": "replayed_unstated",
}


def count_again(tables: Tables) -> Iterator[tuple[str, str, Counts]]:
    """Count the correct and the scored queries of each version and population."""
    [detector] = tables["detectors"]
    word = _WORDS[detector["label_sampling"]]
    for version in tables["versions"]:
        own = [q for q in tables["queries"] if q["version_id"] == version["id"]]
        for population in ("live", "replayed", "unstated"):
            found: dict[str, list[bool]] = defaultdict(list)
            for query in own:
                if query["standing"] in _COUNTED[population, word]:
                    is_right = query["label"] == query["predicted"]
                    found[query["label"]].append(is_right)
            found.pop("UNCLEAR", None)
            counts = {name: (sum(all_), len(all_)) for name, all_ in found.items()}
            yield version["name"], population, counts


def check_rows(tables: Tables, acknowledged: int) -> None:
    """Check that no label is lost or doubled, and that each query has its newest."""
    labels = {label["id"]: label for label in tables["labels"]}
    own = [one for one in labels.values() if one["source_label_id"] is None]
    assert len(own) + len(tables["gold_answers"]) == acknowledged
    newest: dict[int, dict[str, Any]] = {}
    for _, label in sorted(labels.items()):
        before = newest.get(label["query_id"])
        assert label["replaces_id"] == (before and before["id"]), "a label was lost"
        newest[label["query_id"]] = label
    for query in tables["queries"]:
        label = newest.get(query["id"])
        assert query["label_id"] == (label and label["id"])
        if label is not None:
            assert query["label"] == (label["truth"] or label["label"])
            assert query["standing"] == label["standing"]
    _check_inputs(tables["queries"])
    _check_groups(tables["queries"])


def _check_inputs(queries: list[dict[str, Any]]) -> None:
    """Of one input each version scores one query, and all have one label.

    Of an erased input only its hash is kept, and no label is taken over from it: sent
    again, it may be given another one, which scores nothing.
    """
    firsts = Counter(
        (query["version_id"], query["input"])
        for query in queries
        if query["input"] is not None and not query["is_repeat"]
    )
    assert not firsts or max(firsts.values()) == 1
    truths = defaultdict(set)
    for query in queries:
        if query["is_repeat"]:
            assert query["standing"] in {None, "repeat"}
        if query["input"] is not None and query["erased_at"] is None:
            truths[query["input"]].add(query["label"])
    assert all(len(said) == 1 for said in truths.values()), truths


def _check_groups(queries: list[dict[str, Any]]) -> None:
    units = Counter(
        (query["version_id"], query["group"], _UNITS[query["standing"]])
        for query in queries
        if query["group"] is not None and query["standing"] in _UNITS
    )
    assert not units or max(units.values()) == 1, units
