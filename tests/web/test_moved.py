"""Addresses that pages had before lead to where they are now, with what they say."""

import re

import pytest

from tests.web.conftest import Visitor


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/detectors/door/weeks?version=v1&x=time", "/detectors/door/changes"),
        ("/detectors/door/history?version=v1&x=time", "/detectors/door/changes"),
        ("/detectors/door/plan?version=v1&x=time", "/detectors/door/labelling"),
        ("/detectors/door/settings?version=v1&x=time", "/detectors/door/setup"),
        ("/settings?version=v1&x=time", "/keys"),
        ("/settings/accounts?version=v1&x=time", "/people"),
        ("/settings/accounts/1?version=v1&x=time", "/people/1"),
        ("/settings/audit?version=v1&x=time", "/activity"),
        ("/settings/audit.csv?version=v1&x=time", "/activity.csv"),
        ("/webhooks?version=v1&x=time", "/alerts"),
    ],
)
def test_an_old_address_leads_to_the_page(
    visitor: Visitor, published: str, old: str, new: str
) -> None:
    answer = visitor.client.get(old)
    assert answer.status_code == 301
    assert answer.location == f"{new}?version=v1&x=time"
    assert visitor.get(answer.location).status == 200


def test_an_old_address_of_nothing_is_not_found(visitor: Visitor) -> None:
    assert visitor.get("/detectors/nobody/history").status == 404


TABS = {
    "Overview": ("",),
    "Mistakes": ("mistakes", "queries", "thresholds", "repeats"),
    "Slices": ("slices",),
    "Changes": ("changes", "events"),
    "Labelling": ("labelling", "audits", "labelers", "judges", "queries/waiting"),
    "Setup": ("setup", "import", "methods", "why", "studies", "badges"),
}


@pytest.mark.parametrize("tab", TABS)
def test_a_page_stands_under_its_tab_and_keeps_the_version(
    visitor: Visitor, published: str, tab: str
) -> None:
    for place in TABS[tab]:
        page = visitor.get(f"/detectors/{published}/{place}".rstrip("/"))
        inside = page.html.partition('<nav class="tabs"')[2].partition("</nav>")[0]
        here = inside.partition("aria-current")[2].partition("<a ")[0]
        assert re.search(rf">{tab}( <span>\d+</span>)?</a>", here)
        assert page.by_id("shown-version").text
        chosen = visitor.get(
            f"/detectors/{published}/{place}".rstrip("/") + "?version=v1"
        )
        for name in TABS:
            (link,) = [
                a for a in chosen.find("a") if re.fullmatch(name + r"( \d+)?", a.text)
            ][:1]
            assert link.attributes["href"].endswith("?version=v1"), (place, name)


def test_a_path_that_leads_nowhere_keeps_the_rail(visitor: Visitor) -> None:
    page = visitor.get("/nowhere")
    assert page.status == 404
    [rail] = page.find("nav", **{"aria-label": "Main"})
    assert "Detectors" in rail.text


def test_mistakes_are_the_queries_that_it_got_wrong(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}/mistakes")
    assert "8 mistakes" in page.text
    assert "72 queries" in visitor.get(f"/detectors/{published}/queries").text
    fewer = visitor.get(f"/detectors/{published}/mistakes?label=YES")
    assert "5 mistakes" in fewer.text
    # A filter stands as a chip that takes it away.
    (chip,) = [a for a in fewer.find("a") if a.text.startswith("truth YES")]
    assert "label" not in chip.attributes["href"]
