"""The command tracker-client: what a build or a script asks of a server."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode

from tracker_client import gate, reports
from tracker_client.estimates import Estimate, outward
from tracker_client.server import (
    Answer,
    Server,
    ServerError,
    UnreachableError,
    checked,
    path_of,
)
from tracker_client.tracker import find_server

_MEDIA_TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/csv",
    ".txt": "text/csv",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".gz": "application/gzip",
}
# The server looks at the bytes.
_ANY_TYPE = "application/octet-stream"
# An answer that says what came of a million rows takes a minute.
_FILE_SECONDS = 3600.0


# Options that are parameters of the API, by their names.
_CHOICES = (
    *("map", "class", "time_zone", "time_format", "labeler", "version", "set"),
    *("no_answer", "sheet", "header_row", "percent", "same_rows", "new_rows"),
)


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} does not lie between 0 and 1")
    return value


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="tracker-client",
        description="Ask a Tracker server, named by TRACKER_URL and TRACKER_KEY.",
    )
    server = argparse.ArgumentParser(add_help=False)
    # Before the command or behind it.
    for one, default in ((parser, None), (server, argparse.SUPPRESS)):
        one.add_argument(
            "--url", default=default, help="the server; TRACKER_URL unless given"
        )
        one.add_argument(
            "--key",
            default=default,
            help="TRACKER_KEY unless given; others on this machine can read it here",
        )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command = partial(commands.add_parser, parents=[server])

    one = add_command("import", help="send a file of queries and labels")
    one.set_defaults(run=run_import, timeout=_FILE_SECONDS)
    one.add_argument("detector")
    one.add_argument(
        "file",
        help="CSV, Excel, JSON, JSON Lines, Parquet, Arrow, also with .gz, and what "
        "evaluation and labelling tools write; - for standard input",
    )
    one.add_argument("--skip-bad-rows", action="store_true")
    one.add_argument(
        "--type",
        choices=sorted({s[1:] for s in _MEDIA_TYPES}),
        help="what the file is, if neither its name nor its content says it",
    )
    _add_choices(one)

    one = add_command("inspect", help="say what a file is and what it would give")
    one.set_defaults(run=run_inspect, timeout=_FILE_SECONDS)
    one.add_argument("file", help="as for import; nothing is written")
    _add_choices(one)

    one = add_command("export", help="fetch the history or the labels")
    one.set_defaults(run=run_export, timeout=_FILE_SECONDS)
    one.add_argument("detector")
    one.add_argument(
        "--format", default="csv", choices=["csv", "json", "jsonl", "parquet", "xlsx"]
    )
    one.add_argument("--what", default="history", choices=["history", "labels"])
    one.add_argument("--version")
    one.add_argument("--output", type=Path, help="standard output unless given")

    one = add_command("estimate", help="how accurate it is, and how sure")
    one.set_defaults(run=run_estimate, timeout=30.0)
    one.add_argument("detector")
    one.add_argument("--version")
    one.add_argument("--method")
    one.add_argument("--confidence-level", type=_share)
    one.add_argument("--include-targeted", action="store_true", default=None)
    one.add_argument("--format", default="text", choices=["text", "json"])

    one = add_command("compare", help="whether one version is better")
    one.set_defaults(run=run_compare, timeout=30.0)
    one.add_argument("detector")
    one.add_argument("--old")
    one.add_argument("--new")
    one.add_argument("--format", default="text", choices=["text", "json"])

    one = add_command(
        "gate",
        help="stop a build whose detector is not good enough",
        description="Exit status: 0 met, 1 missed, 3 undecided, 2 not measured.",
    )
    one.set_defaults(run=run_gate, timeout=30.0)
    one.add_argument("detector")
    one.add_argument("--target", type=_share, help="the detector's own unless given")
    one.add_argument("--version")
    one.add_argument("--max-width", type=_share, metavar="WIDTH")
    one.add_argument("--not-worse-than", metavar="VERSION")
    one.add_argument("--population", choices=["live", "replayed", "unstated"])
    one.add_argument(
        "--family",
        action="store_true",
        default=None,
        help="let the verdicts of all versions gated this way hold together",
    )
    one.add_argument(
        "--unseen",
        action="store_true",
        default=None,
        help="state that the version was made without the labels it is tested on",
    )
    one.add_argument("--format", default="text", choices=sorted(reports.FORMATS))
    return parser


def _add_choices(one: argparse.ArgumentParser) -> None:
    """Add the options that say how a file is read, named as the API's parameters."""
    one.add_argument(
        "--map",
        action="append",
        metavar="FIELD=COLUMN",
        help="which column holds a field; again for the next",
    )
    one.add_argument(
        "--class",
        action="append",
        metavar="VALUE=CLASS",
        help="which class a value stands for; again for the next",
    )
    one.add_argument(
        "--extra",
        choices=["metadata", "ignore", "refuse"],
        help="what becomes of other columns; metadata unless given",
    )
    one.add_argument("--time-zone", help="of times without one, such as Europe/Berlin")
    one.add_argument(
        "--time-format", help="how times are written, such as '%%d.%%m.%%Y %%H:%%M'"
    )
    one.add_argument("--labeler", help="who gave the labels; the key unless given")
    one.add_argument("--version", help="the version of every row")
    one.add_argument(
        "--set",
        action="append",
        metavar="FIELD=VALUE",
        help="a field with the same value in every row; again for the next",
    )
    one.add_argument(
        "--no-answer",
        action="append",
        metavar="VALUE",
        help="a prediction that is none; again for the next",
    )
    one.add_argument("--sheet", help="the sheet of a workbook")
    one.add_argument("--header-row", help="the row that names the columns, from 1")
    for name, text in (
        ("--percent", "confidences are percentages, written without the sign"),
        ("--same-rows", "rows without a key are those of an earlier file, corrected"),
        ("--new-rows", "rows without a key are new, however like earlier ones"),
    ):
        one.add_argument(name, action="store_const", const="true", help=text)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status."""
    options = build_parser().parse_args(words)
    server = None
    try:
        server = find_server(options.url, options.key, options.timeout)
        return int(options.run(options, server))
    except (
        ServerError,
        UnreachableError,
        OSError,
        ValueError,
    ) as error:
        print(f"tracker-client: {error}", file=sys.stderr)
        return gate.FAILED
    finally:
        if server is not None:
            server.close()


def run_import(options: argparse.Namespace, server: Server) -> int:
    """Send a file; status 1 where rows were refused."""
    suffix = f".{options.type}" if options.type else Path(options.file).suffix.lower()
    media_type = _MEDIA_TYPES.get(suffix, _ANY_TYPE)
    on_error = "skip" if options.skip_bad_rows else "reject"
    path = f"{path_of(options.detector)}/import?on_error={on_error}"
    answer = _send(options, server, path, media_type)
    problem = answer.json if answer.is_problem else {}
    if answer.status != 422 or "errors" not in problem:
        report = checked(answer).json
        more = "".join(
            f"{report[f'{name}_added']:,} {name} added, "
            for name in ("references", "verdicts")
            if report.get(f"{name}_added")
        )
        print(
            f"{report['queries_added']:,} queries and {report['labels_added']:,} "
            f"labels added, {more}{report['unchanged']:,} rows unchanged"
        )
        problem = report
        _print_readings(report)
    for error in problem["errors"]:
        more = f" and {error['rows'] - 1:,} more" if "rows" in error else ""
        row = f"row {error['row']}{more}, " if "row" in error else ""
        print(f"{row}{error['field']}: {error['message']}", file=sys.stderr)
    if problem["errors"] and not options.skip_bad_rows:
        print("nothing was written", file=sys.stderr)
    return int(bool(problem["errors"]))


def run_inspect(options: argparse.Namespace, server: Server) -> int:
    """Print what a file is; status 1 where rows would be refused."""
    found = checked(_send(options, server, "/inspect?", _ANY_TYPE)).json
    print(f"{options.file}: {found['format']}, {found['rows']:,} rows")
    print(*found["says"], sep="\n")
    for warning in found["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return int(found["bad_rows"] > 0)


def _send(
    options: argparse.Namespace, server: Server, path: str, media_type: str
) -> Answer:
    with _opened(options.file) as file:
        size = str(file.seek(0, 2))
        file.seek(0)
        headers = {"Content-Type": media_type, "Content-Length": size}
        return server.ask("POST", f"{path}&{_choices_of(options)}", file, headers)


def _choices_of(options: argparse.Namespace) -> str:
    """Return how the file is to be read, as it stands in an address."""
    given = {
        **{name: getattr(options, name) for name in _CHOICES if getattr(options, name)},
        "extra": options.extra or "metadata",
    }
    return urlencode(given, doseq=True)


def _print_readings(report: dict[str, Any]) -> None:
    """Say what was not read as it stands."""
    readings = [
        *(
            f"the column {c!r} as {name}"
            for name, c in report.get("columns", {}).items()
        ),
        *(
            f"{one['field']} `{one['value']}` as {one['read_as']}, {one['rows']:,} "
            + ("row" if one["rows"] == 1 else "rows")
            for one in report.get("values", ())
        ),
        *report.get("notes", ()),
    ]
    for reading in readings:
        print(f"read: {reading}", file=sys.stderr)


def _opened(name: str) -> BinaryIO:
    """Open a file, or standard input, which may have to be sent twice."""
    return BytesIO(sys.stdin.buffer.read()) if name == "-" else Path(name).open("rb")


def run_export(options: argparse.Namespace, server: Server) -> int:
    """Fetch a file."""
    path = f"{path_of(options.detector)}/{options.what}"
    answer = server.get(path, format=options.format, version=options.version)
    if options.output:
        options.output.write_bytes(answer.content)
    else:
        shutil.copyfileobj(BytesIO(answer.content), sys.stdout.buffer)
    return 0


def run_estimate(options: argparse.Namespace, server: Server) -> int:
    """Print an estimate."""
    found = server.get(
        f"{path_of(options.detector)}/estimate",
        version=options.version,
        method=options.method,
        confidence_level=options.confidence_level,
        include_targeted=options.include_targeted,
    ).json
    if options.format == "json":
        print(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        print(Estimate(found, options.detector, server))
    return 0


def run_compare(options: argparse.Namespace, server: Server) -> int:
    """Print a comparison of two versions."""
    path = f"{path_of(options.detector)}/comparison"
    found = server.get(path, old=options.old, new=options.new).json
    if options.format == "json":
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return 0
    decision = found["decision"]
    if decision is not None:
        low, high = outward(decision["low"], decision["high"])
        more = decision["labels_to_decide"]
        print(
            f"on the inputs of both, at every look: {decision['measure']} accuracy "
            f"changed by [{low}, {high}] points"
            + (f"; about {more:,} more inputs would decide it" if more else "")
        )
    print(f"{found['new']} against {found['old']}: {found['verdict']}")
    return 0


def run_gate(options: argparse.Namespace, server: Server) -> int:
    """Print what the gate says; the exit status says it too."""
    result = gate.measure(
        server,
        options.detector,
        target=options.target,
        version=options.version,
        max_width=options.max_width,
        not_worse_than=options.not_worse_than,
        population=options.population,
        family=options.family,
        unseen=options.unseen,
    )
    print(reports.FORMATS[options.format](result))
    return gate.EXIT[result.verdict]


if __name__ == "__main__":
    sys.exit(main())
