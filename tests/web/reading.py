"""Reading a page as a visitor does: its words, its forms, its elements."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from werkzeug.test import TestResponse

_VOID = {"input", "meta", "link", "img", "br", "hr", "option"}


@dataclass
class Element:
    """A start tag, and the text that stands inside of it."""

    name: str
    attributes: dict[str, str]
    words: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@dataclass
class Page:
    """An answer, and what can be read on it."""

    status: int
    html: str
    headers: dict[str, str]
    elements: list[Element]
    text: str

    def find(self, tag: str, /, **attributes: str) -> list[Element]:
        return [
            element
            for element in self.elements
            if element.name == tag
            and all(
                element.attributes.get(k.rstrip("_")) == v
                for k, v in attributes.items()
            )
        ]

    def by_id(self, name: str) -> Element:
        (found,) = [e for e in self.elements if e.attributes.get("id") == name]
        return found

    def form(self, action: str) -> dict[str, str]:
        """Return what a browser would send from the form with that *action*."""
        inside, values = False, {}
        for element in self.elements:
            if element.name == "form":
                inside = element.attributes.get("action") == action
            kind = element.attributes.get("type")
            if inside and element.name == "input" and kind != "radio":
                values[element.attributes["name"]] = element.attributes.get("value", "")
            if inside and element.name == "textarea":
                values[element.attributes["name"]] = element.text
        assert values, f"there is no form for {action}"
        return values


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        while tag not in _VOID and self.open and self.open.pop().name != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        for element in self.open:
            element.words.append(data)


def read(response: TestResponse) -> Page:
    html = response.get_data(as_text=True)
    parser = _Parser()
    if response.mimetype == "text/html":
        parser.feed(html)
    # The narrow space before a percent sign is for the eye.
    text = " ".join("".join(parser.words).split()).replace("\u202f", " ")
    for element in parser.elements:
        element.words = [word.replace("\u202f", " ") for word in element.words]
    return Page(
        response.status_code, html, dict(response.headers), parser.elements, text
    )


_FACTS = {
    "Labels": r"[Ff]rom ([\d,]+) (?:random |replayed )?labels?",
    "Newest label": r"the newest (.*?) ?\. ",
    "Queries logged": r"([\d,]+) quer(?:y|ies) logged",
    "Unclear, not scored": r"([\d,]+) more w(?:as|ere) “unclear”",
    "Targeted, left out": r"([\d,]+) picked",
    "Repeated inputs, left out": r"([\d,]+) of repeated inputs",
    "In groups that count by another query, left out": r"([\d,]+) of groups",
    "Corrected": r"([\d,]+) labels? w(?:as|ere) corrected",
    "Disputed": r"([\d,]+) quer(?:y|ies) ?without a majority",
}


def facts(page: Page) -> dict[str, str]:
    """Return what a page says that its answer rests on; what it does not say is 0."""
    found = {name: re.search(one, page.text) for name, one in _FACTS.items()}
    return {name: one[1] if one else "0" for name, one in found.items()}
