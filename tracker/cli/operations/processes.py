"""Processes that start and end together, and their preparation."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import FrameType

import click
import structlog

log = structlog.get_logger("tracker.serve")

_GRACE_SECONDS = 35.0
# A process that ends sooner never worked; its port is taken, for example.
_SHORTEST_LIFE_SECONDS = 5.0
# Restarting a process that is killed again and again must not load the machine.
_PAUSE_SECONDS = 1.0


def watch_parent(parent: int, on_gone: Callable[[], None]) -> None:
    """Call *on_gone* once *parent* is no longer the parent of this process.

    A killed parent cannot stop its children, which would keep the port and the
    database.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        on_gone()
        time.sleep(_GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch-parent").start()


class Supervisor:
    """Runs commands of this program side by side, and restarts those that die."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], environ: Mapping[str, str]
    ) -> None:
        self._commands = commands
        self._environ = dict(environ)
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._begun: dict[str, float] = {}
        self._line: str | None = None
        # Whether all ran once; a process that ends at once before that never will.
        self.has_worked = False
        self._stop = threading.Event()

    def start(self, name: str) -> None:
        """Start the command *name*, which may read one line from its stdin."""
        command = [sys.executable, "-m", "tracker", *self._commands[name]]
        self._running[name] = subprocess.Popen(  # noqa: S603 - our own commands.
            [*command, "--parent", str(os.getpid())],
            env=self._environ,
            stdin=subprocess.PIPE,
            text=True,
        )
        self._begun[name] = time.monotonic()
        if self._line is not None:
            self._tell(name, self._line)

    def tell(self, line: str) -> None:
        self._line = line
        for name in self._running:
            self._begun[name] = time.monotonic()
            self._tell(name, line)

    def _tell(self, name: str, line: str) -> None:
        pipe = self._running[name].stdin
        assert pipe is not None
        # A process that has died is told when it is restarted.
        with suppress(BrokenPipeError):
            pipe.write(f"{line}\n")
            pipe.close()

    def wait(self, each_tick: Callable[[], None] = lambda: None) -> int:
        """Wait for SIGTERM or SIGINT, end all processes, and return the exit status.

        *each_tick* is called about five times a second.
        """

        def stop(_signal: int, _frame: FrameType | None) -> None:
            self._stop.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        try:
            while not self._stop.wait(0.2):
                each_tick()
                if not self._revive():
                    return 1
            return 0
        finally:
            self.end_all()

    def _revive(self) -> bool:
        """Restart dead processes; return False if one died at once and never worked."""
        for name, process in self._running.items():
            if process.poll() is None or self._stop.is_set():
                continue
            is_young = time.monotonic() - self._begun[name] < _SHORTEST_LIFE_SECONDS
            # A process that was killed or stopped from outside is restarted.
            if is_young and process.returncode > 0 and not self.has_worked:
                log.error("ended at once", process=name, status=process.returncode)
                return False
            log.error("died; restarting", process=name, status=process.returncode)
            if is_young and self._stop.wait(_PAUSE_SECONDS):
                return True
            self.start(name)
        return True

    def end_all(self) -> None:
        """End every process, by force if it takes too long."""
        for process in self._running.values():
            process.terminate()
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + _GRACE_SECONDS
        for process in self._running.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of the preparation."""

    address: str
    processes: int
    connections: int
    log_level: str
    url: str | None
    # A secret that signs in as the admin; only printed on this machine.
    link: str | None

    def dump(self) -> str:
        return json.dumps(asdict(self))


def prepare(
    host: str,
    port: int,
    environ: Mapping[str, str],
    *,
    upgrade: bool,
    meanwhile: Callable[[], None] = lambda: None,
) -> Prepared:
    """Check that serving is possible, and *upgrade* the database if asked to.

    *meanwhile* is called during the check, which takes seconds.  If serving is not
    possible, this process ends with the status of the check.
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
        # One line always fits into the pipe.
        told = process.stdout.read()
    if process.returncode < 0:
        signal = -process.returncode
        click.echo(f"Stopped: signal {signal} killed the check at startup.", err=True)
        sys.exit(1)
    if process.returncode:
        sys.exit(process.returncode)
    return Prepared(**json.loads(told))
