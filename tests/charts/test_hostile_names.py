"""Names from users: shown as they are, and never interpreted."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from tracker.charts.render import render_svg
from tracker.charts.tightening import Series, tightening_chart

HOSTILE = [
    "<script>alert(1)</script>",
    "]]></text><image href='x'/>&amp;",
    "datum.low + datum['high']",
    "a.b[0]\"c\"\\'d'",
    "'+alert(1)+'",
    "${alert(1)}{{7*7}}#{7*7}%s",
    "signal",
    "null",
    "=HYPERLINK(1)",
    "café 日本語 🙂",
]
MEMBERS = [
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
    "__proto__",
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "prototype",
    "length",
    "caller",
    "arguments",
    "then",
]
UNFIT = [
    "\x00\x1b[31mred",
    "\ud800 alone",
    "\ufffe\uffff",
    "safe\u202egpj.exe",
    "two\nlines\r\n\u2028and\ttabs",
    "n" * 1_000_000,
    "",
    "   ",
]


def chart(published: list[Series], name: str) -> dict[str, Any]:
    balanced, yes, no = published
    return tightening_chart(
        [balanced, Series(name, yes.points), no],
        title=name,
        confidence_level=0.95,
        method=name,
    )


def shape(node: object) -> object:
    """Return *node* with the places emptied where a name may be shown."""
    if isinstance(node, dict):
        shown = {"text", "subtitle", "description"}
        return {key: "" if key in shown else shape(node[key]) for key in node}
    return [shape(child) for child in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", [*HOSTILE, *UNFIT], ids=range(18))
def test_a_name_changes_nothing_but_titles_and_the_description(
    published: list[Series], name: str
) -> None:
    spec = chart(published, name)
    assert shape(spec) == shape(chart(published, "YES"))


@pytest.mark.thorough
@pytest.mark.parametrize("name", HOSTILE, ids=range(10))
def test_a_name_is_shown_to_the_letter(published: list[Series], name: str) -> None:
    root = ElementTree.fromstring(render_svg(chart(published, name)))
    texts = ["".join(text.itertext()) for text in root.iter() if "text" in text.tag]
    assert texts.count(name) == 2
    assert f"95 % intervals, method {name}" in texts
    assert not [node for node in root.iter() if node.tag.endswith(("script", "image"))]


@pytest.mark.thorough
@pytest.mark.parametrize("name", MEMBERS)
def test_a_name_that_every_javascript_object_knows_is_shown(
    published: list[Series], name: str
) -> None:
    root = ElementTree.fromstring(render_svg(chart(published, name)))
    texts = ["".join(text.itertext()) for text in root.iter() if "text" in text.tag]
    assert [text.strip() for text in texts].count(name) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("name", UNFIT, ids=range(8))
def test_what_xml_cannot_hold_is_replaced(published: list[Series], name: str) -> None:
    spec = chart(published, name)
    json.dumps(spec, ensure_ascii=False).encode()
    shown = spec["title"]["text"]
    assert len(shown) <= 80
    assert not set(shown) & set("\x00\x1b\ud800\ufffe\uffff\u202e\n\r\t\u2028")
    ElementTree.fromstring(render_svg(spec))
