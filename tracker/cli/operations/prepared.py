"""What those who supervise others have to know, and how they ask for it."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import click


@dataclass(frozen=True, slots=True)
class Prepared:
    """What serving needs, after all checks."""

    address: str
    processes: int
    connections: int
    log_level: str
    # Where people find it, if the settings say so.
    url: str | None
    # A secret: it signs in as the admin, where only somebody at this machine reads it.
    link: str | None

    def dump(self) -> str:
        return json.dumps(asdict(self))


def load(line: str) -> Prepared:
    return Prepared(**json.loads(line))


def prepare(
    host: str,
    port: int,
    environ: Mapping[str, str],
    *,
    upgrade: bool,
    meanwhile: Callable[[], None] = lambda: None,
) -> Prepared:
    """Check that serving is possible, and *upgrade* the database if told so.

    It takes seconds, in which *meanwhile* is called.  Ends this process with the
    status of the other one where it is not.
    """
    words = ["prepare", "--host", host, "--port", str(port)]
    with subprocess.Popen(  # noqa: S603 - our own command.
        [sys.executable, "-m", "tracker", *words, *(["--upgrade"] if upgrade else [])],
        env=dict(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        meanwhile()
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            click.echo(line, err=True, nl=False)
        # One line, which fits into the pipe.
        told = process.stdout.read()
    if process.returncode < 0:
        signal = -process.returncode
        click.echo(f"Stopped: signal {signal} killed the check at startup.", err=True)
        sys.exit(1)
    if process.returncode:
        sys.exit(process.returncode)
    return load(told)
