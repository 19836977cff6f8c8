"""Time the job on new labels, with more and more labels there already.

The job folds what is new into running counts, so its time should not grow with what
is there.  Beside it stands a recount of all labels by the database, which is what the
same figures would cost without running counts.
"""

import argparse
import time
from collections.abc import Iterator

from rig import (
    DETECTOR,
    add_detector,
    describe,
    describe_machine,
    fill,
    fold,
    fresh_databases,
    opened,
    parse_options,
)

from tracker.jobs.recompute import Recompute
from tracker.services.detectors import get_detector
from tracker.storage.database import Database
from tracker.storage.estimates.counts import count_window

SIZES = (10**3, 10**5, 10**6)
QUICK_SIZES = (10**3, 10**4)


def time_job(database: Database, expected: int) -> tuple[float, int]:
    with database.read() as session:
        detector_id = get_detector(session, DETECTOR).id
    begun = time.perf_counter()
    done = Recompute(database=database, worker="benchmark").recompute(detector_id)
    seconds = time.perf_counter() - begun
    assert done is not None
    assert done.labels == expected
    return seconds, done.snapshots


def time_recount(database: Database) -> float:
    with database.read() as session:
        detector_id = get_detector(session, DETECTOR).id
        begun = time.perf_counter()
        count_window(session, detector_id, since=None, until=None)
        return time.perf_counter() - begun


def measured(
    database: Database, new: int, repeats: int, sizes: tuple[int, ...]
) -> Iterator[str]:
    yield f"{'labels there':>14}{'job, ms':>10}{'snapshots':>11}{'recount, ms':>13}"
    add_detector(database)
    there = 0
    for size in sizes:
        # Many repeats may have brought more already.
        if size > there:
            fill(database, size - there, first=there)
            fold(database)
            there = size
        before, jobs, recounts = there, [], []
        for _ in range(repeats):
            fill(database, new, first=there)
            there += new
            jobs.append(time_job(database, new))
            recounts.append(time_recount(database))
        seconds, snapshots = min(jobs)
        took, counted = seconds * 1000, min(recounts) * 1000
        yield f"{before:>14,}{took:>10.1f}{snapshots:>11}{counted:>13.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--new", type=int, default=1_000, help="new labels")
    parser.add_argument("--repeats", type=int, default=5)
    options = parse_options(parser)
    print(
        f"The job on {options.new:,} new labels; best of {options.repeats}; "
        f"{describe_machine()}"
    )
    for kind in options.kinds:
        with fresh_databases(kind) as make:
            url = make()
            print(f"\n{describe(url)}")
            with opened(url) as database:
                sizes = QUICK_SIZES if options.quick else SIZES
                for line in measured(database, options.new, options.repeats, sizes):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
