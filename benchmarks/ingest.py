"""Time labels that come one by one, beside bare statements and MLflow's server.

Each label is a request of its own with a query and its label, or a label for a query
that is there; each is committed and on the disk before it is answered.  Bare are the
very statements that the database cannot do without, one transaction for each label or
for each thousand, by as many threads with a connection each.  MLflow's tracking
server logs one metric a request on its own SQLite, or a batch of the thousand metrics
that it takes at most.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from rig import (
    DETECTOR,
    START,
    add_detector,
    by,
    describe,
    describe_machine,
    fresh_databases,
    opened,
    parse_options,
    random_rows,
)
from rig.servers import (
    MLFLOW,
    Client,
    has_mlflow,
    seconds_of,
    served,
    served_mlflow,
)

from tracker.services.detectors import get_detector
from tracker.services.people.keys import create_key
from tracker.storage.database import Database
from tracker.storage.detectors import add_versions

CLIENTS = (1, 8)
BATCH = 1_000
QUERIES = f"/api/v1/detectors/{DETECTOR}/queries"
IMPORT = f"/api/v1/detectors/{DETECTOR}/import"
# What the bare statements fill; the other columns have no value.
OF_QUERY = (
    "id detector_id version_id key predicted confidence asked_at created_at label_id "
    "label sampling standing is_replayed is_gold is_repeat"
)
OF_LABEL = (
    "id query_id detector_id label standing sampling labeler labelled_at created_at "
    "is_repeat"
)


def rates(
    labels: int, work: Callable[..., Callable[[], Any]], *, each: int = 1
) -> dict[int, float]:
    """Return labels a second by each number of clients.

    *work* gives a client, by its number and how many requests it sends.
    """
    found = {}
    for clients in CLIENTS:
        mine = max(labels // clients // each, 1)
        seconds = seconds_of(clients, partial(work, requests=mine))
        found[clients] = mine * clients * each / seconds
    return found


def bare(database: Database, labels: int, *, each: int = 1) -> dict[int, float]:
    """Insert so many queries with their labels in each transaction, again and again."""
    with database.write() as session:
        detector = get_detector(session, DETECTOR).id
        (version,) = add_versions(
            session, detector, [f"bare-{each}"], created_at=START
        ).values()
    # PostgreSQL would check foreign keys as it planned to while the tables were small.
    database.engine.dispose()
    instant = "2026-01-01 00:00:00.000000" if database.is_sqlite else START
    mark = "?" if database.is_sqlite else "%s"

    def insert(table: str, names: str) -> str:
        marks = ", ".join([mark] * len(names.split()))
        return f"INSERT INTO {table} ({', '.join(names.split())}) VALUES ({marks})"

    def query(number: int) -> tuple[Any, ...]:
        said = number, detector, version, f"bare-{number}", "YES", 0.9
        kinds = "YES", "random", "random", False, False, False
        return (*said, instant, instant, number, *kinds)

    def label(number: int) -> tuple[Any, ...]:
        said = number, number, detector, "YES", "random", "random", "b"
        return (*said, instant, instant, False)

    def work(_client: int, requests: int) -> Callable[[], None]:
        connection = database.engine.raw_connection()
        cursor = connection.cursor()

        def run() -> None:
            for _ in range(requests):
                if database.is_sqlite:
                    cursor.execute("BEGIN IMMEDIATE")
                cursor.execute(
                    "INSERT INTO pending_batches (detector_id, created_at) "
                    f"VALUES ({mark}, {mark}) RETURNING id",
                    (detector, instant),
                )
                first = cursor.fetchone()[0] << 24
                ids = range(first, first + each)
                cursor.executemany(insert("queries", OF_QUERY), list(map(query, ids)))
                cursor.executemany(insert("labels", OF_LABEL), list(map(label, ids)))
                connection.commit()
            connection.close()

        return run

    return rates(labels, work, each=each)


def logged(port: int, key: str, labels: int) -> dict[int, float]:
    """Log a query with its label in each request."""
    first = count(0, labels)

    def work(_client: int, requests: int) -> Callable[[], None]:
        client = Client(port, key)
        rows = list(random_rows(next(first), requests))
        for row in rows:
            row["key"] = f"one-{row['key']}"
        return lambda: [client.post(QUERIES, row) for row in rows] and None

    return rates(labels, work)


def labelled(port: int, key: str, labels: int) -> dict[int, float]:
    """Give a label in each request to a query that is there."""

    def work(_client: int, requests: int) -> Callable[[], None]:
        client = Client(port, key)
        rows = [{"predicted": "YES", "version": "v1"} for _ in range(requests)]
        client.post(IMPORT, {"items": rows})
        ids = list(islice(client.walk(f"{QUERIES}?labelled=false"), requests))
        bodies = [(f"/api/v1/queries/{name}/labels", {"label": "YES"}) for name in ids]
        return lambda: [client.post(*body) for body in bodies] and None

    return rates(labels, work)


def imported(port: int, key: str, labels: int) -> dict[int, float]:
    """Import a batch of labelled rows in each request."""
    first = count(10**6, 10**6)

    def work(_client: int, requests: int) -> Callable[[], None]:
        client, place = Client(port, key), next(first)
        bodies = [
            {"items": list(random_rows(place + BATCH * number, BATCH))}
            for number in range(requests)
        ]
        return lambda: [client.post(IMPORT, body) for body in bodies] and None

    return rates(labels, work, each=BATCH)


def mlflow_rates(port: int, labels: int, batched: int) -> Iterator[dict[int, float]]:
    """Log metrics one by one, then in batches."""
    api = "/api/2.0/mlflow"
    # A connection is for those who use it: the server soon closes an idle one.
    made = Client(port).post(f"{api}/experiments/create", {"name": "x"})
    experiment = made["experiment_id"]

    def new_run() -> str:
        body = {"experiment_id": experiment, "start_time": 0}
        run = Client(port).post(f"{api}/runs/create", body)["run"]
        return str(run["info"]["run_id"])

    def metric(step: int) -> dict[str, Any]:
        return {"key": "correct", "value": 1.0, "timestamp": step, "step": step}

    def one_by_one(_client: int, requests: int) -> Callable[[], None]:
        client, run = Client(port), new_run()
        bodies = [{"run_id": run, **metric(step)} for step in range(requests)]
        return lambda: (
            [client.post(f"{api}/runs/log-metric", body) for body in bodies] and None
        )

    def in_batches(_client: int, requests: int) -> Callable[[], None]:
        client, run = Client(port), new_run()
        bodies = [
            {
                "run_id": run,
                "metrics": [metric(BATCH * number + i) for i in range(BATCH)],
            }
            for number in range(requests)
        ]
        return lambda: (
            [client.post(f"{api}/runs/log-batch", body) for body in bodies] and None
        )

    yield rates(labels, one_by_one)
    yield rates(batched, in_batches, each=BATCH)


def measured(kind: str, labels: int, imports: int) -> Iterator[tuple[str, Any]]:
    """Yield each way to send labels, with the labels a second by each of CLIENTS."""
    with (
        fresh_databases(kind) as make,
        tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
    ):
        url = make()
        with opened(url) as database:
            add_detector(database)
            with database.write() as session:
                key = create_key(session, "benchmark", "editor", by(at=START))
            yield "bare statements, one by one", bare(database, labels)
            batches = bare(database, imports, each=BATCH)
            yield f"bare statements, {BATCH:,} by {BATCH:,}", batches
        with served(url, Path(name)) as port:
            yield "query with its label, one a request", logged(port, key, labels)
            yield "label of a query, one a request", labelled(port, key, labels)
            yield f"import, {BATCH:,} a request", imported(port, key, imports)


def table(
    kind: str, labels: int, imports: int, theirs: list[dict[int, float]]
) -> Iterator[str]:
    """Yield the lines of the table of one kind of database."""
    with fresh_databases(kind) as make:
        yield f"\n{describe(make())}"
    yield f"{'':36}" + "".join(
        f"{f'{clients} client' + 's' * (clients > 1):>12}{'of bare':>9}{'MLflow':>9}"
        for clients in CLIENTS
    )
    bare_rates: dict[bool, dict[int, float]] = {}
    for title, found in measured(kind, labels, imports):
        is_batch = f"{BATCH:,}" in title
        bare_rate = bare_rates.setdefault(is_batch, found)
        peer = theirs and theirs[is_batch]
        yield f"{title:36}" + "".join(
            f"{rate:>12,.0f}{rate / bare_rate[clients]:>9.0%}"
            + (f"{rate / peer[clients]:>8.1f}x" if peer else " " * 9)
            for clients, rate in found.items()
        )
    for title, peer in zip(("log-metric", "log-batch"), theirs, strict=False):
        yield f"{f'MLflow {MLFLOW}, {title}':36}" + "".join(
            f"{rate:>12,.0f}{'':18}" for rate in peer.values()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=2_000, help="one by one")
    parser.add_argument("--imports", type=int, default=80_000, help="in batches")
    parser.add_argument("--without-mlflow", action="store_true")
    options = parse_options(parser)
    labels, imports = options.labels, options.imports
    if options.quick:
        labels, imports = labels // 10, imports // 10
    print(
        f"Labels a second: {labels:,} one by one, {imports:,} in batches; "
        f"{describe_machine()}"
    )
    theirs: list[dict[int, float]] = []
    if not options.without_mlflow and has_mlflow():
        with (
            tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
            served_mlflow(Path(name)) as port,
        ):
            theirs = list(mlflow_rates(port, labels, imports))
    for kind in options.kinds:
        for line in table(kind, labels, imports, theirs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
