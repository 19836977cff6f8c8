"""Finding queries, looking at one, and correcting its label."""

import io
from collections.abc import Callable

import pytest
from flask import Flask
from PIL import Image
from sqlalchemy import select

from tests.conftest import Clock, by
from tests.databases import noted_statements
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, facts
from tracker.app import create_app
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.queries.finding import SORTS
from tracker.storage.queries.queries import Query

ROWS = [
    {
        "key": "a",
        "predicted": "YES",
        "label": "YES",
        "version": "v1",
        "metadata": {"camera": "north"},
    },
    {"key": "b", "predicted": "NO", "label": "YES", "version": "v1"},
    {"key": "c", "predicted": "NO", "label": "NO", "version": "v2"},
    {"key": "d", "predicted": "YES", "label": "UNCLEAR", "version": "v2"},
    {"key": "e", "predicted": "NO", "version": "v2", "confidence": 0.5},
]


@pytest.fixture
def five(shelf: Shelf) -> str:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, ROWS)
    return detector_id


def _links(page: Page) -> list[str]:
    return [
        a.attributes["href"]
        for a in page.find("a")
        if a.attributes.get("href", "").startswith("/queries/")
    ]


def _keys(visitor: Visitor, path: str) -> str:
    """Return the keys of the listed queries, in order, as one word."""
    pages = [visitor.get(link) for link in _links(visitor.get(path))]
    terms = [
        [e.text for e in page.elements if e.name in {"dt", "dd"}] for page in pages
    ]
    return "".join(words[words.index("Key") + 1] for words in terms)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("filters", "keys"),
    [
        ("", "edcba"),
        ("show=labelled", "dcba"),
        ("show=unlabelled", "e"),
        ("show=wrong", "b"),
        ("show=right", "ca"),
        ("show=junk", "edcba"),
        ("predicted=NO", "ecb"),
        ("label=YES", "ba"),
        ("label=UNCLEAR", "d"),
        ("version=v1", "ba"),
        ("version=*", "edcba"),
        ("show=wrong&version=v2", ""),
        ("show=unlabelled&predicted=YES", ""),
        ("show=unlabelled&label=YES", ""),
        ("show=right&predicted=NO&version=v2", "c"),
        ("show=disputed", ""),
        ("key=a", "a"),
        ("key=a*", "a"),
        ("low=0,5", "e"),
        ("high=0.4", ""),
        ("counted=yes", "cba"),
        ("counted=no", "d"),
        ("last=2020-01-01", ""),
        ("first=2020-01-01", "edcba"),
        ("where=metadata.camera:north", "a"),
        ("where=metadata.camera:north&where=predicted:NO", ""),
        ("sort=oldest", "abcde"),
        ("sort=oldest&label=YES", "ab"),
        ("sort=-key&predicted=NO", "ecb"),
        ("sort=confidence", "eabcd"),
        ("sort=junk", "edcba"),
    ],
)
def test_the_list_is_filtered(
    visitor: Visitor, five: str, recompute: Callable[[], None], filters: str, keys: str
) -> None:
    path = f"/detectors/{five}/queries?{filters}"
    assert _keys(visitor, path) == keys
    recompute()
    assert _keys(visitor, path) == keys


@pytest.mark.parametrize(
    "wrong",
    ["label=MAYBE", "predicted=MAYBE", "low=2", "first=soon", "where=camera"],
)
def test_what_is_wrong_with_a_filter_is_said(
    visitor: Visitor, five: str, wrong: str
) -> None:
    page = visitor.get(f"/detectors/{five}/queries?{wrong}")
    assert page.status == 400
    assert "Nothing is shown" in page.text
    assert _links(page) == []


def test_the_total_is_that_of_all_pages(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES"}] * 30)
    assert "30 queries" in visitor.get(f"/detectors/{detector_id}/queries").text


@pytest.mark.thorough
@pytest.mark.parametrize("sort", sorted(SORTS))
@pytest.mark.parametrize("filters", ["", "predicted=NO", "label=YES", "show=labelled"])
def test_previous_and_next_walk_the_list_both_ways(
    visitor: Visitor, five: str, sort: str, filters: str
) -> None:
    listed = _links(visitor.get(f"/detectors/{five}/queries?sort={sort}&{filters}"))
    walked, here = [], listed[0]
    while here:
        walked.append(here)
        (here,) = _beside(visitor.get(here), "next") or [""]
    assert walked == listed
    back = [listed[-1]]
    while before := _beside(visitor.get(back[-1]), "prev"):
        back += before
    assert back == listed[::-1]


def _beside(page: Page, which: str) -> list[str]:
    return [a.attributes["href"] for a in page.find("a", rel=which)]


def test_a_correction_leads_back_to_its_place_in_the_list(
    visitor: Visitor, five: str
) -> None:
    (link,) = _links(visitor.get(f"/detectors/{five}/queries?show=wrong"))
    answer = visitor.send(link, {"label": "NO"})
    assert answer.headers["Location"] == link
    assert "show=wrong" in link


def test_a_text_is_shown_with_its_line_breaks(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    text = "Dear all,\n\nit is <b>broken</b>." + "\n" * 9 + "Yours"
    shelf.add_queries(detector_id, [{"predicted": "YES", "metadata": {"text": text}}])
    (link,) = _links(visitor.get(f"/detectors/{detector_id}/queries"))
    for path in (link, f"/detectors/{detector_id}/label"):
        page = visitor.get(path)
        assert "Dear all,\n\nit is &lt;b&gt;broken&lt;/b&gt;." in page.html
        assert "Show the rest" in page.text


@pytest.mark.parametrize(
    ("metadata", "shown", "beside"),
    [
        ({"body": "a\n <b>b</b>", "text": "other"}, "a\n &lt;b&gt;b&lt;/b&gt;", "text"),
        ({"body": 7, "text": "a\nb"}, "a\nb", "body"),
        ({"text": "a\nb", "camera": "north"}, "a\nb", "camera"),
        ({"body": ["a"], "text": None}, None, "body"),
    ],
)
def test_the_text_is_the_declared_field_or_else_the_usual_one(
    visitor: Visitor,
    shelf: Shelf,
    metadata: dict[str, object],
    shown: str | None,
    beside: str,
) -> None:
    detector_id = shelf.add_detector(text_field="body")
    shelf.add_queries(detector_id, [{"predicted": "YES", "metadata": metadata}])
    (link,) = _links(visitor.get(f"/detectors/{detector_id}/queries"))
    for path in (link, f"/detectors/{detector_id}/label"):
        page = visitor.get(path)
        assert ("input-words" in page.html) == (shown is not None)
        assert shown is None or f'dir="auto">{shown}</div>' in page.html
        assert beside in [one.text for one in page.find("dt")]
    tiles = visitor.get(f"/detectors/{detector_id}/label/grid").html
    assert (f'dir="auto">{shown}</p>' in tiles) == (shown is not None)


def test_a_version_that_there_is_not_is_refused(visitor: Visitor, five: str) -> None:
    assert visitor.get(f"/detectors/{five}/queries?version=v9").status in {400, 404}


def test_a_long_list_goes_on_and_keeps_its_filters(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [{"predicted": "YES", "label": "NO"}, {"predicted": "YES", "label": "YES"}]
    shelf.add_queries(detector_id, rows * 30)
    first = visitor.get(f"/detectors/{detector_id}/queries?show=wrong")
    (older,) = [a for a in first.find("a") if a.text == "Next page"]
    second = visitor.get(older.attributes["href"])
    assert len(_links(first)) == 24
    assert len(_links(second)) == 6
    assert not set(_links(first)) & set(_links(second))


def test_a_rare_label_is_found_without_a_walk(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None], database: Database
) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 300)
    recompute()
    with noted_statements(database) as statements:
        page = visitor.get(f"/detectors/{detector_id}/queries?show=wrong")
    assert "No query matches" in page.text
    lists = [s for s in statements if "FROM queries" in s and "confidence" in s]
    assert lists == []


def test_a_query_shows_what_is_known_of_it(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(
        detector_id,
        [
            {
                "predicted": "YES",
                "confidence": 0.75,
                "label": "NO",
                "note": "hinge",
                "metadata": {"camera": 4, "place": "dock"},
            }
        ],
    )
    (link,) = _links(visitor.get(f"/detectors/{detector_id}/queries"))
    page = visitor.get(link)
    for said in ("YES at confidence 0.75", "so the detector was wrong", "hinge"):
        assert said in page.text
    for said in ("by alice", "current"):
        assert said in page.text
    facts = page.find("dl", class_="facts")[0].text
    assert "camera 4 place dock" in facts


def test_a_corrected_label_keeps_the_one_before(visitor: Visitor, five: str) -> None:
    (link,) = _links(visitor.get(f"/detectors/{five}/queries?show=wrong"))
    answer = visitor.send(link, {"label": "NO", "note": "looked twice"})
    assert answer.status_code == 303
    page = visitor.get(link)
    history = page.find("ol")[0].text
    assert "NO current" in history
    assert "by web" in history
    assert "looked twice" in history
    assert "YES replaced" in history
    said = facts(visitor.get(f"/detectors/{five}?version=v1"))
    assert said["Corrected"] == "1"
    assert said["Unclear, not scored"] == "0"


def test_a_picked_query_can_be_left_out(visitor: Visitor, five: str) -> None:
    (link,) = _links(visitor.get(f"/detectors/{five}/queries?show=unlabelled"))
    visitor.send(link, {"label": "YES", "sampling": "targeted"})
    said = facts(visitor.get(f"/detectors/{five}"))
    assert said["Targeted, left out"] == "1"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"label": "MAYBE"}, "label"),
        ({"label": ""}, "label"),
        ({"label": "YES", "note": "x" * 2001}, "note"),
    ],
)
def test_what_is_wrong_with_a_label_is_said(
    visitor: Visitor, five: str, fields: dict[str, str], field: str
) -> None:
    (link,) = _links(visitor.get(f"/detectors/{five}/queries?show=unlabelled"))
    page = visitor.post(link, fields)
    assert page.status == 422
    assert page.by_id(f"{field}-error").text
    assert page.form(link)["note"] == fields.get("note", "")


def test_an_image_is_shown(
    app: Flask, visitor: Visitor, keys: dict[str, str], door: str, png: bytes
) -> None:
    from tracker.http import Context
    from tracker.services.images import clean_image
    from tracker.services.queries.queries import NewQuery, log_query
    from tracker.storage.detectors import find_detector

    context: Context = app.extensions["tracker"]
    image = clean_image(png)
    name = context.images.put(image.content, image.suffix)
    with context.database.write() as session:
        detector = find_detector(session, int(door.removeprefix("det_")))
        assert detector is not None
        query, _ = log_query(
            session,
            detector,
            NewQuery(predicted="YES"),
            by("alice", context.clock()),
            image=name,
        )
    path = f"/queries/iq_{query.id}"
    (shown,) = visitor.get(path).find("img")
    answer = visitor.client.get(shown.attributes["src"])
    assert answer.data == image.content
    assert answer.mimetype == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_an_image_elsewhere_is_shown_only_from_named_hosts(
    settings: Settings, database: Database, clock: Clock, shelf: Shelf
) -> None:
    named = settings.model_copy(update={"image_hosts": ("good.example",)})
    visitor = Visitor(create_app(named, database, clock=clock))
    detector_id = shelf.add_detector()
    rows = [
        {"predicted": "YES", "image_url": f"https://{host}/1.png"}
        for host in (
            "good.example",
            "bad.example",
            "good.example@bad.example",
            "[",
            "x[y",
        )
    ]
    shelf.add_queries(detector_id, rows)
    links = _links(visitor.get(f"/detectors/{detector_id}/queries"))
    shown = [
        i.attributes["src"] for link in links for i in visitor.get(link).find("img")
    ]
    assert shown == ["https://good.example/1.png"]


def test_a_query_without_an_image_has_none(visitor: Visitor, five: str) -> None:
    link = _links(visitor.get(f"/detectors/{five}/queries"))[0]
    assert visitor.get(f"{link}/image").status == 404


def test_a_thumbnail_is_small_and_kept_but_shown_only_to_who_may_see_it(
    app: Flask, visitor: Visitor, database: Database, door: str
) -> None:
    images = app.extensions["tracker"].images
    for size, mode, expected in (
        ((4, 4), "RGB", (4, 4)),
        ((1000, 500), "RGB", (320, 160)),
        ((400, 2000), "RGBA", (64, 320)),
        ((640, 640), "P", (320, 320)),
    ):
        buffer = io.BytesIO()
        Image.new(mode, size).save(buffer, "PNG")
        name = images.put(buffer.getvalue(), "png")
        with database.write() as session:
            query = session.scalars(select(Query).limit(1)).one()
            query.image = name
            link = f"/queries/iq_{query.id}"
        answer = visitor.client.get(f"{link}/thumbnail")
        with Image.open(io.BytesIO(answer.data)) as image:
            assert image.size == expected
        assert answer.headers["Cache-Control"] == "private, no-cache"
        same = {"If-None-Match": answer.headers["ETag"]}
        unchanged = visitor.client.get(f"{link}/thumbnail", headers=same)
        assert (unchanged.status_code, unchanged.data) == (304, b"")
        stranger = app.test_client().get(f"{link}/thumbnail", headers=same)
        assert stranger.status_code == 303
        assert answer.mimetype == ("image/png" if max(size) < 320 else "image/webp")
    assert f'src="{link}/thumbnail"' in visitor.get(f"/detectors/{door}/queries").html
    assert visitor.get("/queries/iq_404/thumbnail").status == 404


def test_metadata_is_shown_in_words(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    metadata = {
        "text": "a <b>text</b>",
        "camera": {"name": "north", "lamps": {"on": True, "number": 2}},
        "tags": ["wet", 3, None],
        "boxes": [[1, 2], [3, 4]],
        "empty": {},
        "missing": None,
    }
    shelf.add_queries(detector_id, [{"predicted": "YES", "metadata": metadata}])
    text = visitor.get(f"/detectors/{detector_id}/label").by_id("labelling").text
    for words in (
        "a <b>text</b>",
        "camera → name north",
        "camera → lamps → on yes",
        "camera → lamps → number 2",
        "tags wet, 3, none",
        "boxes [[1, 2], [3, 4]]",
        "empty {}",
        "missing none",
    ):
        assert words in text


def test_a_tag_is_put_on_and_taken_off(visitor: Visitor, five: str) -> None:
    path = _links(visitor.get(f"/detectors/{five}/queries?show=wrong"))[0]
    own = path.partition("?")[0]
    added = visitor.send(f"{own}/tags?show=wrong", {"add": " too dark "})
    assert added.status_code == 303
    assert added.location.endswith(f"{own}?show=wrong")
    page = visitor.get(own)
    assert page.find("ul", class_="tags")[0].text.startswith("too dark")
    [link] = [a for a in page.find("a") if a.text == "too dark"]
    listed = visitor.get(link.attributes["href"])
    assert listed.find("h2")[0].text == "1 query"
    assert "too dark" in listed.text
    visitor.post(f"{own}/tags", {"remove": "too dark"})
    assert not visitor.get(own).find("ul", class_="tags")
    assert visitor.post(f"{own}/tags", {"add": "x" * 101}).status == 422


def test_a_query_is_erased_by_an_admin_who_is_sure(visitor: Visitor, five: str) -> None:
    own = _links(visitor.get(f"/detectors/{five}/queries?show=wrong"))[0].split("?")[0]
    assert visitor.send(f"{own}/erase").location.endswith(own)
    assert visitor.get(own).status == 200
    erased = visitor.send(f"{own}/erase", {"sure": "yes"})
    assert erased.status_code == 303
    page = visitor.get(erased.location)
    assert "The query is erased." in page.text
    assert page.find("h2")[0].text == "4 queries"
    assert visitor.get(own).status == 410
    # It stays counted.
    cell = visitor.get(f"/detectors/{five}?version=v1")
    assert facts(cell)["Labels"] == "2"


def test_an_image_is_erased_by_an_admin_who_is_sure(
    app: Flask, visitor: Visitor, five: str, database: Database, png: bytes
) -> None:
    images = app.extensions["tracker"].images
    own = _links(visitor.get(f"/detectors/{five}/queries?show=wrong"))[0].split("?")[0]
    assert "Erase its image" not in visitor.get(own).text
    with database.write() as session:
        query = session.scalars(select(Query).where(Query.key == "b")).one()
        query.image = images.put(png, "png")
    before = visitor.get(own)
    form = before.form(f"{own}/image/erase")
    assert before.find("img")
    # Without its token the form is refused.
    refused = visitor.client.post(f"{own}/image/erase", data={"sure": "yes"})
    assert refused.status_code == 400
    assert visitor.send(f"{own}/image/erase").location.endswith(own)
    assert len(list(images.iter_names())) == 1
    editor = Visitor(app, "eve", "editor")
    assert "Erase its image" not in editor.get(own).text
    assert editor.send(f"{own}/image/erase", {"sure": "yes"}).status_code == 403
    erased = visitor.client.post(f"{own}/image/erase", data=form)
    assert (erased.status_code, list(images.iter_names())) == (303, [])
    page = visitor.get(own)
    assert "The image is erased." in page.text
    assert page.find("h2")[0].text == before.find("h2")[0].text == "Query b"
    assert not page.find("img")
    assert "Erase its image" not in page.text
    assert visitor.post(f"{own}/image/erase", {"sure": "yes"}).status == 410


def test_a_link_to_an_image_is_erased_too(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    row = {"predicted": "YES", "image_url": "https://elsewhere.example/1.png"}
    shelf.add_queries(detector_id, [row])
    own = _links(visitor.get(f"/detectors/{detector_id}/queries"))[0]
    assert "elsewhere.example" in visitor.get(own).text
    visitor.post(f"{own}/image/erase", {"sure": "yes"})
    assert "elsewhere.example" not in visitor.get(own).text
