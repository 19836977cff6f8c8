"""The dashboard and the rules in docs/grafana, with the metrics that there are."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode

import pytest
import yaml
from flask import Flask
from werkzeug.serving import make_server

from tests.processes import ROOT, fetch, free_port, wait_until
from tests.web.conftest import Shelf, Visitor

FOLDER = ROOT / "docs/grafana"


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found


@pytest.mark.parametrize(
    "words", [("check", "rules", "rules.yml"), ("test", "rules", "rules.test.yml")]
)
def test_promtool_accepts_the_rules(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [tool("promtool"), *words],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def expressions() -> list[str]:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text())
    return [
        *(one["expr"] for panel in dashboard["panels"] for one in panel["targets"]),
        *(one["expr"] for group in rules["groups"] for one in group["rules"]),
    ]


@pytest.fixture
def scraped(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> Iterator[Visitor]:
    """A detector that misses its target."""
    missed = shelf.add_detector(name="door", target=0.9)
    rows = [{"predicted": "YES", "label": one} for one in ("YES", "NO")] * 50
    shelf.add_queries(missed, rows)
    recompute()
    return visitor


@pytest.mark.slow
def test_dashboard_and_rules_use_metrics_that_there_are(scraped: Visitor) -> None:
    given = set(
        re.findall(r"^(tracker_\w+)", scraped.client.get("/metrics").text, re.M)
    )
    used = {
        name
        for one in expressions()
        for name in re.findall(r"(?<![\w:])tracker_\w+", one)
    }
    # That is there once a change was proved.
    assert used <= given | {"tracker_change_told_seconds"}
    assert len(used) >= 7
    # No target is repeated: who changes it changes it in Tracker alone.
    assert not [one for one in expressions() if re.search(r"[<>] *0?\.\d", one)]


def test_what_is_provisioned_is_the_dashboard_with_its_kind_of_source() -> None:
    def load(name: str) -> Any:
        return yaml.safe_load((FOLDER / "provisioning" / name).read_text())

    (source,) = load("datasources/prometheus.yml")["datasources"]
    (provider,) = load("dashboards/tracker.yml")["providers"]
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    asked = [
        one["query"]
        for one in dashboard["templating"]["list"]
        if one["type"] == "datasource"
    ]
    assert asked == [source["type"]] == ["prometheus"]
    assert provider["type"] == "file"
    mounts = re.findall(r"\$PWD/([^:]+):([^:]+):ro", (FOLDER / "README.md").read_text())
    places = {there: ROOT / here for here, there in mounts}
    assert places["/etc/grafana/provisioning"] == FOLDER / "provisioning"
    (file,) = [one for one in places if one.startswith(provider["options"]["path"])]
    assert places[file] == FOLDER / "dashboard.json"


@pytest.fixture
def prometheus(
    app: Flask, scraped: Visitor, keys: dict[str, str], tmp_path: Path
) -> Iterator[str]:
    """The address of a Prometheus that scrapes the application."""
    program = tool("prometheus")
    server = make_server("127.0.0.1", 0, app, threaded=True)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    job = {
        "job_name": "tracker",
        "authorization": {"credentials": keys["viewer"]},
        "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}],
    }
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(FOLDER / "rules.yml")],
        "scrape_configs": [job],
    }
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump(settings))
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'series'}",
            f"--web.listen-address={address}",
            "--log.level=error",
        ]
    )
    yield f"http://{address}"
    process.kill()
    process.wait()
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_real_prometheus_answers_what_the_dashboard_asks(prometheus: str) -> None:
    def ask(path: str, **parameters: str) -> Any:
        try:
            found = fetch(f"{prometheus}/api/v1/{path}?{urlencode(parameters)}")
        except URLError:
            return []
        return json.loads(found)["data"]

    def query(expression: str) -> Any:
        found = ask("query", query=expression)
        return found["result"] if found else []

    missed = 'tracker_verdict{verdict="missed"} == 1'
    wait_until(lambda: query(missed) != [], 120)
    assert query(missed)[0]["metric"]["detector"] == "door"
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for one in panel["targets"]:
            # What Grafana puts in for the choice *All*.
            found = query(one["expr"].replace("$detector", ".*"))
            # No change is proved of this detector.
            assert bool(found) == ("tracker_change" not in one["expr"]), one["expr"]
    values = {"match[]": "tracker_accuracy_ratio"}
    assert ask("label/detector/values", **values) == ["door"]
    below = 'tracker_accuracy_bound_ratio{side="upper",class="balanced"} '
    below += "< on (detector, instance) group_left () tracker_target_ratio"
    methods = {one["metric"]["method"] for one in query(below)}
    assert methods == {"exact", "joint", "anytime"}

    def rules() -> dict[str, Any]:
        groups = ask("rules")["groups"]
        return {one["name"]: one for group in groups for one in group["rules"]}

    # An alert waits for some minutes before it fires.
    wait_until(lambda: {one["health"] for one in rules().values()} == {"ok"}, 120)
    # A rule may have been evaluated before the metrics were there.
    alarming = {"pending", "firing"}
    wait_until(lambda: rules()["TrackerTargetMissed"]["state"] in alarming, 120)
    assert rules()["TrackerMetricsAbsent"]["state"] == "inactive"
