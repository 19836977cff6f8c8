"""Scripts in every text that somebody may type: shown to the letter, never run."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tests.browser.conftest import Site, Watch
from tests.conftest import Clock, by
from tests.imports import import_rows
from tests.services.irises import SEEDS
from tracker.jobs.recompute import recompute_all
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.labelling.studies import add_study, parse_study
from tracker.services.people.accounts import create_account
from tracker.services.people.keys import create_key
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.queries.queries import Query

Open = Callable[..., Watch]
RUN = "window.executed=1"
PAYLOADS = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"--><script>{RUN}</script>",
    f"]]><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f"<img src=x onerror='{RUN}'>",
    f'"><img src=x onerror="{RUN}">',
    f"'><img src=x onerror='{RUN}'>",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg/onload={RUN}//",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<body onload={RUN}>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<iframe src=javascript:parent.{RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<audio src=x onerror={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<select autofocus onfocus={RUN}>",
    f"<marquee onstart={RUN}>",
    f"<math><mtext><script>{RUN}</script></mtext></math>",
    f"<object data=javascript:{RUN}>",
    f"<embed src=javascript:{RUN}>",
    f"<form><button formaction=javascript:{RUN}>",
    f"<a href=javascript:{RUN}>a</a>",
    f"<base href=javascript:{RUN}//>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    f"<link rel=stylesheet href=javascript:{RUN}>",
    f"<style>@import 'javascript:{RUN}'</style>",
    f"javascript:{RUN}",
    f'" onmouseover="{RUN}" autofocus onfocus="{RUN}',
    f"' onmouseover='{RUN}' autofocus onfocus='{RUN}",
    f"` autofocus onfocus={RUN} `",
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"${{{RUN}}}",
    f"<div hx-get=/ hx-trigger=load hx-on:htmx:load='{RUN}'>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;&#60;script&#62;{RUN}",
]


@pytest.fixture(scope="module")
def hostile(site: Site) -> dict[str, list[str]]:
    """Put every payload into every field; return the paths to look at."""
    clock = Clock()
    paths: dict[str, list[str]] = {}
    for number, payload in enumerate(PAYLOADS):
        with site.database.write() as session:
            paths[payload] = _describe(session, clock, number, payload)
            create_account(session, f"{payload} a", "viewer", by(at=clock()))
            create_key(session, f"{payload} k", "viewer", by(at=clock()))
    recompute_all(site.database, worker="hostile", clock=clock)
    return paths


def _describe(session: Session, clock: Clock, number: int, payload: str) -> list[str]:
    # No slash can stand in the name of a detector; a browser reads a space alike.
    name = f"{payload} {number}".replace("/", " ")
    new = NewDetector(name=name, question=payload, classes=[payload, f"{payload}2"])
    detector = create_detector(session, new, by(at=clock()))
    query = _add_queries(session, clock, detector, payload)
    said = {"name": payload, "kind": "seeds", "rounds": SEEDS, "note": payload}
    study, _ = add_study(session, detector, parse_study(said), by(payload, clock()))
    here = f"/detectors/{dump_id('det', detector.id)}"
    paths = [here, f"/queries/{query}"]
    if number % 4 == 0:
        # What these show stands on the pages above as well.
        paths += [f"{here}/queries", f"{here}/label"]
        paths += [f"/studies/{dump_id('stu', study.id)}"]
    return paths


def _add_queries(
    session: Session, clock: Clock, detector: Detector, payload: str
) -> str:
    """Log two queries and label the first; return its id."""
    values = {
        "input": payload,
        "predicted": payload,
        "version": payload,
        "metadata": {payload: payload},
    }
    rows = [{**values, "key": f"{payload}{at}"} for at in (1, 2)]
    import_rows(session, detector, rows, by(payload, clock()), digest=payload)
    statement = select(func.min(Query.id)).where(Query.detector_id == detector.id)
    query_id = session.scalar(statement)
    assert query_id is not None
    label = NewLabel(label=payload, note=payload)
    add_label(session, query_id, label, by(payload, clock()))
    return dump_id("iq", query_id)


def test_forty_payloads_are_shown_and_none_is_run(
    open_page: Open, site: Site, hostile: dict[str, list[str]]
) -> None:
    assert len(PAYLOADS) == 40
    watch = open_page("/")
    page = watch.page
    looked = 0
    for payload, paths in hostile.items():
        for path in paths:
            page.goto(site.url + path)
            assert page.evaluate("window.executed") is None, (payload, path)
            if path == paths[0]:
                assert payload in page.locator(".page-question").inner_text()
            looked += 1
    for path in ("/", "/keys", "/people", "/activity"):
        page.goto(site.url + path)
        assert page.evaluate("window.executed") is None, path
    assert looked == 110
    assert watch.read() == []


def test_what_is_echoed_is_not_run(open_page: Open, site: Site) -> None:
    watch = open_page("/")
    page = watch.page
    for payload in PAYLOADS:
        said = quote(payload, safe="")
        for path in (f"/sign-in?name={said}&next={said}", f"/detectors/{said}"):
            page.goto(site.url + path)
            assert page.evaluate("window.executed") is None, path
    # A script that was kept from running by the policy would be a complaint too.
    assert [said for said in watch.read() if "404" not in said] == []
