"""Audits of a fixed set of queries, whose labels are asked for where they tell most."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tracker_client.estimates import Estimate
from tracker_client.server import Server, checked, path_of

_JSON = {"Content-Type": "application/json"}


class Audit(Mapping[str, Any]):
    """An audit as the API answers it: ``audit["queries"]``, ``audit["result"]``.

    ``for draw in audit.draws(): audit.label(draw, "YES")`` labels until its goal is
    reached.  Every method raises ServerError or UnreachableError.
    """

    def __init__(self, content: Mapping[str, Any], name: str, server: Server) -> None:
        """Wrap the *content* of an answer about an audit of the detector *name*."""
        self._content = content
        self._name = name
        self._server = server

    def __getitem__(self, field: str) -> Any:
        return self._content[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return f"<Audit {self['name']} of {self._name}: {self['queries']:,} queries>"

    @property
    def _path(self) -> str:
        return f"/audits/{self['id']}"

    def next(self, count: int = 1) -> list[Mapping[str, Any]]:
        """Return the next draws, which are this key's for half an hour."""
        items: list[Mapping[str, Any]]
        items = self._server.get(f"{self._path}/next", count=count).json["items"]
        return items

    def draws(self) -> Iterator[Mapping[str, Any]]:
        """Yield one draw after the other until the goal is reached.

        One that stays without its label comes again.  Label as UNCLEAR what cannot be
        answered: to leave out what is hard would bend the result.
        """
        while not self.estimate()["is_reached"]:
            found = self.next()
            if not found:
                return
            yield found[0]

    def label(
        self, draw: Mapping[str, Any], label: str, *, note: str | None = None
    ) -> None:
        """Label a draw that `next` or `draws` gave."""
        body = {"label": label, **({"note": note} if note else {})}
        _post(self._server, f"/queries/{draw['id']}/labels", body)

    def estimate(self) -> Estimate:
        """Return the intervals of the set; they hold however often one asks."""
        answer = self._server.get(f"{self._path}/estimate")
        return Estimate(answer.json, self._name, self._server)

    def history(self) -> list[Mapping[str, Any]]:
        """Return how the intervals closed in, round by round."""
        items: list[Mapping[str, Any]]
        items = self._server.get(f"{self._path}/history").json["items"]
        return items

    def record(self) -> Mapping[str, Any]:
        """Return strata, rounds and draws, to compute the intervals again."""
        record: Mapping[str, Any] = self._server.get(f"{self._path}/record").json
        return record

    def pause(self) -> Audit:
        """Draw nothing more until `resume`."""
        return self._change("pause")

    def resume(self) -> Audit:
        """Go on after `pause`."""
        return self._change("resume")

    def close(self) -> Audit:
        """Draw nothing more; what the audit says is kept as its ``result``."""
        return self._change("close")

    def narrow(self, half_width: float) -> Audit:
        """Give the audit a narrower aim; all labels so far count."""
        body = json.dumps({"half_width": half_width}).encode()
        answer = checked(self._server.ask("PATCH", self._path, body, _JSON))
        return Audit(answer.json, self._name, self._server)

    def _change(self, action: str) -> Audit:
        content = _post(self._server, f"{self._path}/{action}", {})
        return Audit(content, self._name, self._server)


def begin_audit(server: Server, detector: str, said: Mapping[str, Any]) -> Audit:
    """Begin an audit of *detector* as the API takes it."""
    return Audit(post_audit(server, detector, said), detector, server)


def post_audit(server: Server, detector: str, said: Mapping[str, Any]) -> Any:
    """Send what an audit, or a schedule of audits, is to be; return the answer."""
    given = {name: value for name, value in said.items() if value is not None}
    return _post(server, f"{path_of(detector)}/audits", given)


def list_audits(server: Server, detector: str, every: str | None) -> list[Audit]:
    """Return the audits of *detector*, or those made *every* span, the newest first."""
    found: list[Audit] = []
    after = None
    while True:
        page = server.get(
            f"{path_of(detector)}/audits", limit=100, after=after, every=every
        ).json
        found += [Audit(one, detector, server) for one in page["items"]]
        if page["next"] is None:
            return found
        after = found[-1]["id"]


def _post(server: Server, path: str, body: Mapping[str, Any]) -> Any:
    content = json.dumps(body).encode()
    return checked(server.ask("POST", path, content, _JSON)).json
