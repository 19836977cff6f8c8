"""What a program uses: a tracker and its detectors."""

from __future__ import annotations

import atexit
import hashlib
import itertools
import os
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO
from urllib.parse import urlencode

from tracker_client import frames, rows
from tracker_client.audits import Audit, begin_audit, list_audits, post_audit
from tracker_client.estimates import Estimate
from tracker_client.sending import Sender, refused_path
from tracker_client.server import Server, checked, path_of
from tracker_client.spool import Spool

MAX_SPOOL_BYTES = 2**30
_POLL_SECONDS = 0.01
_LIVING: weakref.WeakSet[Tracker] = weakref.WeakSet()


def default_spool(url: str, key: str) -> Path:
    """Return the folder for rows to the server at *url* under *key*, by their hash."""
    if sys.platform == "win32":  # pragma: no cover - the tests run elsewhere.
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    place = hashlib.sha256(f"{url.rstrip('/')}\n{key}".encode()).hexdigest()[:16]
    return Path(base) / "tracker-client" / place


def find_server(url: str | None, key: str | None, timeout: float = 30.0) -> Server:
    """Return the server that is given, or the one of TRACKER_URL and TRACKER_KEY."""
    url = url or os.environ.get("TRACKER_URL")
    key = key or os.environ.get("TRACKER_KEY")
    if not url or not key:
        raise ValueError("name the server and its key, or set TRACKER_URL, TRACKER_KEY")
    return Server(url, key, timeout=timeout)


class Tracker:
    """A server, and the spool of what is on its way there."""

    def __init__(  # noqa: PLR0913 - each has its own default.
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        spool: str | os.PathLike[str] | None = None,
        max_spool_bytes: int = MAX_SPOOL_BYTES,
        timeout: float = 30.0,
        exit_seconds: float = 2.0,
    ) -> None:
        """Log to *url* with *key*, or to TRACKER_URL with TRACKER_KEY.

        *spool* is the folder of what is on its way (TRACKER_SPOOL, else one of the
        user's for this server and key); processes may share it.  At *max_spool_bytes*
        rows are dropped and counted.  *timeout* is how many seconds a server may be
        silent, *exit_seconds* how long the end of the program waits for what is left.
        """
        self._server = find_server(url, key, timeout)
        given_key = key or os.environ["TRACKER_KEY"]
        folder = spool or os.environ.get("TRACKER_SPOOL")
        self._spool = Spool(
            Path(folder) if folder else default_spool(self._server.url, given_key),
            max_bytes=max_spool_bytes,
        )
        sending = Server(self._server.url, given_key, timeout=timeout)
        self._sender = Sender(self._spool, sending)
        self._exit_seconds = exit_seconds
        # Rows that were refused before this tracker was made.
        self._refused_before = self.refused
        self._is_used = False
        self._new_keys()
        _LIVING.add(self)

    def _new_keys(self) -> None:
        # No two processes, and no two trackers of one process, begin alike.
        self._key_prefix = f"c-{os.urandom(9).hex()}-"
        self._next_key = itertools.count(1).__next__

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def detector(  # noqa: PLR0913 - each has its own default.
        self,
        name: str,
        *,
        question: str | None = None,
        classes: Sequence[Any] | None = None,
        version: str | None = None,
        target: float | None = None,
        measure: str | None = None,
        label_sampling: str | None = None,
        label_of: str | None = None,
        class_shares: Mapping[Any, float] | None = None,
        reference: float | None = None,
        group_by: str | None = None,
        confidence_level: float | None = None,
    ) -> Detector:
        """Return the detector *name*; with a *question* it is made where it is not.

        Nothing waits for the server.  *version* is that of the rows logged with it.
        *label_sampling* says how queries are chosen whose labels do not say it:
        ``random``, ``all`` or ``targeted``.  With *label_of* ``answer`` a label judges
        the answer of one query, and is not shared by others with its input.
        *class_shares* say how frequent each class is, which makes the deciding interval
        narrower.  *reference* is the accuracy below which you want to be told.
        *group_by* is the key of the metadata that
        says which queries belong together: ``metadata.session``.
        """
        if question is not None:
            new: dict[str, Any] = {"name": name, "question": question}
            if classes is not None:
                new["classes"] = [rows.class_name(one) for one in classes]
            if class_shares is not None:
                new["class_shares"] = {
                    rows.class_name(name): part for name, part in class_shares.items()
                }
            said = {
                "target": target,
                "measure": measure,
                "label_sampling": label_sampling,
                "label_of": label_of,
                "reference": reference,
                "group_by": group_by,
                "confidence_level": confidence_level,
            }
            new |= {field: value for field, value in said.items() if value is not None}
            quoted = rows.quote(name)
            self._append(
                rows.record(rows.DETECTOR, quoted.encode(), quoted, rows.encode(new))
            )
        return Detector(self, name, version)

    def make_key(self) -> str:
        """Return a key that no other row has."""
        return f"{self._key_prefix}{self._next_key()}"

    def _append(self, content: bytes) -> None:
        self._spool.append(content)
        if not self._sender.is_running:
            self._is_used = True
            self._sender.start()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was logged is taken; False after *timeout*.

        That is all of this process, and what others left in the spool before its end.
        False, too, if the server refused a row since this tracker was made, because
        that row is not taken: see ``refused`` and ``dead_letters``.
        """
        self._is_used = True
        self._sender.start()
        deadline = None if timeout is None else time.monotonic() + timeout
        end = None
        while True:
            if end is None and not self._spool.waiting:
                end = self._spool.end()
            if end is not None and self._sender.has_sent(end):
                return self.refused == self._refused_before
            if deadline is not None and time.monotonic() >= deadline:
                return False
            self._sender.hurry()
            time.sleep(_POLL_SECONDS)

    @property
    def sent(self) -> int:
        """How many rows of this spool the server has taken."""
        return self._sender.cursor.sent

    @property
    def refused(self) -> int:
        """How many rows of this spool the server has refused for good."""
        return self._sender.refused

    @property
    def dropped(self) -> int:
        """How many rows this process dropped because the spool was full."""
        return self._spool.dropped

    @property
    def dead_letters(self) -> Path:
        """The file of the rows that were refused, each with the server's words."""
        return refused_path(self._spool.folder)

    def close(self, timeout: float | None = None) -> bool:
        """Send what is left, as ``flush`` does, and end the thread."""
        self._server.close()
        if not self._is_used:
            return True
        is_done = self.flush(self._exit_seconds if timeout is None else timeout)
        self._sender.stop()
        self._spool.close()
        self._is_used = False
        return is_done

    def _forget(self) -> None:
        self._spool.forget()
        self._sender.forget()
        self._server.forget()
        self._is_used = False
        self._new_keys()


class Detector:
    """One detector of a server: what it says is logged, and its accuracy asked for."""

    def __init__(self, tracker: Tracker, name: str, version: str | None) -> None:
        """Name a detector; ``Tracker.detector`` does."""
        self.name = name
        self.version = version
        self._tracker = tracker
        self._server = tracker._server
        self._quoted = rows.quote(name).encode()

    def __repr__(self) -> str:
        return f"Detector({self.name!r})"

    def log(  # noqa: PLR0913 - one for each field of a query.
        self,
        predicted: Any,
        *,
        confidence: Any = None,
        key: str | None = None,
        image: bytes | str | os.PathLike[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        label: Any = None,
        sampling: str | None = None,
        note: str | None = None,
        input: str | None = None,  # noqa: A002 - the field's name.
        group: str | None = None,
        version: str | None = None,
        asked_at: datetime | str | None = None,
        image_url: str | None = None,
    ) -> str:
        """Log one prediction, and return its key; returns at once.

        The same *key* again is the same query.  *label* is the truth where it is known
        already.  Of the queries of a *group*, such as an event or a session, one
        counts.  *image* is PNG, JPEG or WebP, as bytes or as the path of a file.
        """
        name = self._tracker.make_key() if key is None else str(key)
        # The instant comes first where it is ours; see ``delivery.STAMPED``.
        row: dict[str, Any] = {"asked_at": rows.now()} if asked_at is None else {}
        row["key"] = name
        row["predicted"] = rows.class_name(predicted)
        if confidence is not None:
            row["confidence"] = rows.probability(confidence)
        if metadata is not None:
            row["metadata"] = metadata
        version = version or self.version
        if version is not None:
            row["version"] = version
        if label is not None:
            row["label"] = rows.class_name(label)
        if asked_at is not None:
            row["asked_at"] = rows.instant(asked_at)
        others = (
            ("input", input),
            ("group", group),
            ("sampling", sampling),
            ("note", note),
            ("image_url", image_url),
        )
        row |= {field: value for field, value in others if value is not None}
        picture = None if image is None else rows.picture(image)
        self._append(row, picture)
        return name

    def _append(self, row: dict[str, Any], picture: bytes | None = None) -> None:
        kind = rows.QUERY if "predicted" in row else rows.LABEL
        if picture is not None:
            kind = rows.IMAGE
        quoted, content = rows.quote(row["key"]), rows.encode(row)
        self._tracker._append(rows.record(kind, self._quoted, quoted, content, picture))

    def label(  # noqa: PLR0913 - one for each field of a label.
        self,
        key: str,
        label: Any,
        *,
        sampling: str | None = None,
        note: str | None = None,
        labeler: str | None = None,
        labelled_at: datetime | str | None = None,
    ) -> None:
        """Give the query of *key* its true class; returns at once.

        The newest label counts, so that a second one is a correction, or with another
        *labeler* a second opinion.
        """
        row: dict[str, Any] = {
            "key": str(key),
            "label": rows.class_name(label),
            "labelled_at": rows.now()
            if labelled_at is None
            else rows.instant(labelled_at),
        }
        if sampling is not None:
            row["sampling"] = sampling
        if note is not None:
            row["note"] = note
        if labeler is not None:
            row["labeler"] = labeler
        self._append(row)

    def log_frame(
        self,
        frame: Any,
        *,
        same_rows: bool = False,
        new_rows: bool = False,
        **columns: Any,
    ) -> int:
        """Log each row of a data frame, and return how many; see ``frames.frame_rows``.

        *columns* says which column holds which field, as ``predicted="guess"``.

        Without a key for each row the frame is sent at once, as a file is: if it begins
        with an earlier one, only its further rows are added.  Raises ServerError where
        rows are wrong, and where some differ from the earlier ones and neither
        *same_rows*, which are corrected, nor *new_rows* is true.
        """
        found = list(frames.frame_rows(frame, columns))
        if all("key" in row for row in found):
            return self._append_all(found)
        if self.version is not None:
            found = [{"version": self.version, **row} for row in found]
        content = "\n".join(map(rows.encode, found)).encode()
        said = {"same_rows": same_rows, "new_rows": new_rows}
        chosen = {name: "true" for name, is_so in said.items() if is_so}
        self._import(BytesIO(content), len(content), "application/x-ndjson", chosen)
        return len(found)

    def log_file(self, path: str | os.PathLike[str], **choices: Any) -> dict[str, Any]:
        """Send a file of queries and labels, and return the report of its import.

        It is read as ``tracker import`` reads it, and at once: it does not go into the
        spool.  *choices* are parameters of the API, such as ``map=["label=truth"]``.
        Raises ServerError where it is refused, and UnreachableError.
        """
        chosen = {"extra": "metadata", "version": self.version, **choices}
        given = {name: one for name, one in chosen.items() if one is not None}
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            return self._import(file, size, "application/octet-stream", given)

    def _import(
        self, file: BinaryIO, size: int, kind: str, choices: dict[str, Any]
    ) -> dict[str, Any]:
        # What was logged before, the detector itself among it, goes first.
        # A server that is away is told by the request itself.
        self._tracker.flush(self._tracker._exit_seconds)
        answer = self._server.ask(
            "POST",
            f"{path_of(self.name)}/import?{urlencode(choices, doseq=True)}",
            file,
            {"Content-Type": kind, "Content-Length": str(size)},
        )
        report: dict[str, Any] = checked(answer).json
        return report

    def log_classifier(  # noqa: PLR0913 - each has its own default.
        self,
        estimator: Any,
        inputs: Any,
        truth: Any = None,
        *,
        names: Sequence[str] | None = None,
        sampling: str | None = None,
        version: str | None = None,
    ) -> int:
        """Log what a scikit-learn classifier says of *inputs*, and return how many.

        *truth* holds the labels.  *names* of the inputs, else their contents, tell that
        two versions were given the same.  The same call again adds nothing.
        """
        found = frames.classifier_rows(
            estimator, inputs, truth, names=names, version=version or self.version
        )
        return self._append_all(
            found
            if sampling is None
            else ({**row, "sampling": sampling} for row in found)
        )

    def _append_all(self, found: Any) -> int:
        number = 0
        for number, row in enumerate(found, start=1):  # noqa: B007 - how many there were.
            if self.version is not None:
                row.setdefault("version", self.version)
            row.setdefault("key", None)
            if row["key"] is None:
                row["key"] = self._tracker.make_key()
            self._append(row)
        return number

    def estimate(
        self,
        *,
        version: str | None = None,
        method: str | None = None,
        confidence_level: float | None = None,
        include_targeted: bool = False,
        **more: Any,
    ) -> Estimate:
        """Ask the server how accurate it is, by the labels that have arrived.

        *more* are further parameters of the API.  Raises ServerError, UnreachableError.
        """
        chosen = {
            "version": version or self.version,
            "method": method,
            "confidence_level": confidence_level,
            "include_targeted": True if include_targeted else None,
            **more,
        }
        answer = self._server.get(f"{path_of(self.name)}/estimate", **chosen)
        return Estimate(answer.json, self.name, self._server)

    def history(self, **parameters: Any) -> Any:
        """Return every snapshot: a pandas frame, or a list of rows without pandas.

        *parameters* are those of the API: ``version``, ``method``, ``since`` and so on;
        ``by="asked_at"`` has a snapshot for each day on which queries were asked.
        """
        path = f"{path_of(self.name)}/history"
        parameters.setdefault("version", self.version)
        answer = self._server.get(path, format="jsonl", **parameters)
        return frames.history_frame(answer.content)

    def begin_audit(
        self,
        name: str,
        *,
        version: str | None = None,
        aim: str | None = None,
        half_width: float | None = None,
        target: float | None = None,
        **more: Any,
    ) -> Audit:
        """Begin an audit of a fixed set of queries, which asks for the fewest labels.

        *more* are further fields of the API: ``since``, ``until``, ``where``, ``seed``.
        Raises ServerError, UnreachableError.
        """
        said = {
            "name": name,
            "version": version or self.version,
            "aim": aim,
            "half_width": half_width,
            "target": target,
            **more,
        }
        return begin_audit(self._server, self.name, said)

    def begin_schedule(
        self, name: str, *, every: str = "week", **more: Any
    ) -> Mapping[str, Any]:
        """Make an audit of each week, day or month by itself; return the schedule.

        *more* are further fields of the API: ``half_width`` or ``labels``, ``aim``,
        ``target``, ``time_zone``, ``labelers``, ``version``, ``where``, ``uses``.
        Raises ServerError, UnreachableError.
        """
        said = {"name": name, "every": every, **more}
        schedule: Mapping[str, Any] = post_audit(self._server, self.name, said)
        return schedule

    def audits(self, *, every: str | None = None) -> list[Audit]:
        """Return the audits of this detector, the newest first.

        With *every* they are those that schedules made of each week, day or month.
        """
        return list_audits(self._server, self.name, every)

    def wait_for_verdict(
        self,
        *,
        version: str | None = None,
        timeout: float | None = None,
        poll_seconds: float = 2.0,
    ) -> Estimate:
        """Wait until the target is met or missed, and return that estimate.

        Raises TimeoutError after *timeout* seconds, ValueError without a target.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            target = self._server.get(path_of(self.name)).json["target"]
            if target is None:
                raise ValueError(f"the detector {self.name} has no target")
            found = self.estimate(version=version, method="anytime")
            if found.verdict(target) != "undecided":
                return found
            if deadline is not None and time.monotonic() + poll_seconds > deadline:
                raise TimeoutError(f"{self.name}: the verdict is still undecided")
            time.sleep(poll_seconds)


def _forget_all() -> None:
    for tracker in list(_LIVING):
        tracker._forget()


def _close_all() -> None:
    for tracker in list(_LIVING):
        tracker.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
