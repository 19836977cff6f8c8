"""The command plan."""

import json

import pytest

from tests.cli.test_commands import Shell, published_csv
from tracker.stats import labels_to_certify, labels_to_reach_balanced_width


@pytest.fixture
def shell(database_url, tmp_path):
    return Shell(database_url, tmp_path)


@pytest.fixture
def door(shell):
    """The detector of the published check."""
    shell("detectors", "create", "door", "--question", "Is it?", "--target", "0.9")
    shell("import", "door", shell.file("labels.csv", published_csv()))
    return shell


def test_a_plan_says_how_many_labels_and_of_which_class(door):
    total = sum(labels_to_reach_balanced_width([23, 41], [28, 44], 0.1, 0.95))
    certify = labels_to_certify(0.9, 41 / 44, 0.8, 0.95, k=41, n=44)
    shown = door("plan", "door").stdout
    assert f"{total:,} more labels in all" in shown
    assert "Next: YES; a label of it narrows" in shown
    rows = [line.split("│")[1:-1] for line in shown.splitlines() if "│" in line]
    assert [row[-1].strip() for row in rows] == ["unreachable", str(certify)]
    wide = json.loads(door("plan", "door", "--width", "0.5", "--format", "json").stdout)
    assert wide["for_balanced_width"] == 0
    assert "already at most 0.5 wide" in door("plan", "door", "--width", "0.5").stdout
    assert wide["next"]["class"] == "YES"


def test_a_plan_supposes_what_it_is_told(door):
    words = ["--target", "0.5", "--accuracy", "0.9", "--power", "0.9", "--more", "50"]
    words += ["--version", "*", "--confidence-level", "0.99"]
    plan = json.loads(door("plan", "door", *words, "--format", "json").stdout)
    assert [plan[key] for key in ("target", "accuracy", "power", "more")] == [
        0.5,
        0.9,
        0.9,
        50,
    ]
    assert (plan["version"], plan["confidence_level"]) == ("*", 0.99)
    assert all(row["chance_to_certify"] > 0.99 for row in plan["classes"])
    header = door("plan", "door", *words).stdout.split("┡")[0]
    for said in ("chance", "more to", "certify"):
        assert said in header


def test_a_plan_without_labels_names_the_first_class(shell):
    shell("detectors", "create", "new", "--question", "Is it?")
    shown = shell("plan", "new").stdout
    assert "Next: YES; it has no label yet." in shown
    assert "certify" not in shown


def test_a_plan_says_why_labels_decide_nothing_yet(door):
    because = "No verdict: 72 labels do not say how they were chosen"
    assert because in door("plan", "door").stdout
    door("detectors", "change", "door", "--label-sampling", "random")
    assert "No verdict" not in door("plan", "door").stdout


def test_a_plan_refuses_what_it_cannot_do(door):
    assert "no detector 'nobody'" in door("plan", "nobody", status=1).stderr
    assert "0<x<1" in door("plan", "door", "--width", "0", status=2).stderr
    assert "not a number" in door("plan", "door", "--target", "nan", status=2).stderr
    assert "v9" in door("plan", "door", "--version", "v9", status=1).stderr
    assert "--more" in door("plan", "door", "--more", "-1", status=2).stderr


def test_an_estimate_warns_of_bursts_and_says_whose_labels_parts_count(shell):
    make = ("detectors", "create", "new", "--question", "Is it?")
    shell(*make, "--label-sampling", "random", "--measure", "overall")
    rows = [f"{n},v1,{'NO' if n // 5 % 8 == 0 else 'YES'},YES" for n in range(100)]
    file = shell.file("bursts.csv", "\n".join(["input,version,predicted,label", *rows]))
    shell("import", "new", file)
    assert "warning: Mistakes come in bursts" in shell("estimate", "new").stdout
    # The overall accuracy needs labels of no certain class.
    said = shell("plan", "new").stdout
    assert "more labels drawn at random bring the interval of the overall" in said
    assert "Next" not in said
    file = shell.file("again.csv", "input,version,predicted\n1,v2,YES\n2,v2,NO\n")
    shell("import", "new", file)
    said = shell("slices", "new", "--by", "week", "--version", "v2").stdout
    assert "left out: 2 replayed labels" in said
    said = shell("weeks", "new", "--version", "v2").stdout
    assert "intervals by live labels, each input counts once" in said
    said = shell("compare", "new").stdout
    assert "by live and replayed labels; each input counts once" in said
