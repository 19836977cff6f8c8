"""Time an import whose columns and values are mapped against one that needs none.

The same rows go into fresh databases in turns, once named as Tracker names
them and once as people do, with other columns, other words for the classes and
percentages for confidences.
"""

import argparse
import io
import os
import time

from rig import (
    add_detector,
    by,
    describe,
    describe_machine,
    fresh_databases,
    opened,
    parse_options,
    random_rows,
)

from tracker.services.imports.reading.choices import read_choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.writing import Order, importing

PLAIN = ("key", "predicted", "confidence", "label")
MAPPED = ("File", "Answer", "p", "Truth")


def write(rows: list[dict], names: tuple[str, ...], *, is_mapped: bool) -> bytes:
    """Return the rows as CSV."""
    lines = [",".join(names)]
    for row in rows:
        said, share, truth = row["predicted"], float(row["confidence"]), row["label"]
        cells = [row["key"], said, f"{share:.4f}", truth]
        if is_mapped:
            cells = [row["key"], f"{said} ", f"{100 * share:.2f}%", truth.lower()]
        lines.append(",".join(cells))
    return "\n".join(lines).encode()


def run(url: str, content: bytes, columns: list[str]) -> float:
    """Return the seconds of one import into a fresh database."""
    with opened(url) as database:
        add_detector(database)
        choices = read_choices(columns=columns, extra="refuse")
        file = open_named(io.BytesIO(content), "rows.csv").read_by(choices)
        begun = time.perf_counter()
        prepared = importing(database, Order("x", file, by()))
        with prepared as carry_out, database.write() as session:
            carry_out(session)
        return time.perf_counter() - begun


def main() -> None:
    """Print the best time of each, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parse_options(parser)
    number = 20_000 if options.quick else options.rows
    rows = list(random_rows(0, number))
    fields = [f"{name}={column}" for name, column in zip(PLAIN, MAPPED, strict=True)]
    courses = {
        "as Tracker names them": (write(rows, PLAIN, is_mapped=False), []),
        "mapped": (write(rows, MAPPED, is_mapped=True), fields),
    }
    del rows
    print(f"{number:,} rows; {describe_machine()}, load {os.getloadavg()[0]:.1f}")
    for kind in options.kinds:
        best = dict.fromkeys(courses, float("inf"))
        with fresh_databases(kind) as make:
            print(f"\n{describe(make())}")
            for _ in range(options.repeats):
                for name, course in courses.items():
                    best[name] = min(best[name], run(make(), *course))
        for name, seconds in best.items():
            print(f"{name}: {seconds:.2f} s, {number / seconds:,.0f} rows/s")
        plain, mapped = best.values()
        print(f"mapped at {plain / mapped:.0%} of the speed", flush=True)


if __name__ == "__main__":
    main()
