"""The tightening chart: how the intervals shrink as labels arrive."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracker.charts import axes, words
from tracker.charts.axes import Axis, Layout, Series, Sheet, View
from tracker.charts.panels import NOTHING, Overlay, Panel, draw
from tracker.charts.themes import COLOURS, Colours, Theme, settings
from tracker.shapes import Moment

# Nobody looks at more panels one by one.
CLASS_LIMIT = 12

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_POINTS = 250
# Pixels of a letter in a heading, about.
_LETTER = 9
_X_TITLE: dict[Axis, str] = {
    "labels": "number of labels (log scale)",
    "time": "time (UTC)",
    "asked_at": "queries asked up to (UTC)",
}


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    colour: str
    points: Sequence[Moment]


def tightening_chart(  # noqa: PLR0913 - each is named, and most are left out.
    series: Sequence[Series],
    *,
    title: str,
    confidence_level: float,
    method: str,
    target: float | None = None,
    x: Axis = "labels",
    theme: Theme = "light",
    layout: Layout = "wide",
    class_count: int | None = None,
    is_whole: bool = False,
    overlay: Overlay = NOTHING,
    note: str = "",
) -> dict[str, Any]:
    """Return the Vega-Lite specification of the tightening chart.

    *series* begins with the balanced accuracy; the classes follow in their order.
    The vertical axis begins at the data, or at 0 if *is_whole*.  Beyond 12 classes only
    those with the widest intervals are drawn; *class_count* is the number of classes if
    *series* lacks some.  Titles and names of classes may be any text.  A *note* says
    whose labels they are.
    """
    sheet = Sheet(layout, *axes.SIZE[layout])
    colours = COLOURS[theme]
    balanced = axes.in_order(series[0].points, x=x) if series else []
    if not balanced:
        return _empty(title, sheet, colours)
    classes = _classes(series[1:], x, colours)
    count, shown = max(class_count or 0, len(series) - 1), len(classes)
    notes = [
        f"{words.chosen(confidence_level)} intervals, method {words.plain(method)}"
    ]
    notes += [note] if note else []
    if shown < count:
        notes.append(f"{shown:,} of {count:,} classes, those with the widest intervals")
    notes += [] if target is None else ["the dashed line is the target"]
    paths = [balanced, *(one.points for one in classes)]
    view = axes.build_view(paths, x, is_whole=is_whole)
    large = _large_panel(balanced, view, sheet, colours, target, overlay)
    rows = [draw(large, view, colours)]
    if classes:
        small = [
            draw(one, view, colours) for one in _small_panels(classes, view, sheet)
        ]
        columns = sheet.columns(len(small))
        rows.append({"concat": small, "columns": columns, "spacing": axes.GAP})
    return _page(
        rows,
        colours=colours,
        heading=_heading(title, notes, sheet),
        description=_describe(title, notes, balanced[-1], classes, target, overlay),
    )


def _classes(series: Sequence[Series], x: Axis, colours: Colours) -> list[_Class]:
    palette, classes = colours.classes, []
    for index in axes.widest([one.points for one in series], limit=CLASS_LIMIT):
        name = words.plain(series[index].scope, limit=60)
        if points := axes.in_order(series[index].points, x=x):
            # A class keeps its colour when the order by width changes.
            classes.append(_Class(name, palette[index % len(palette)], points))
    return classes


def _large_panel(  # noqa: PLR0913, PLR0917 - what is drawn, where and how.
    points: Sequence[Moment],
    view: View,
    sheet: Sheet,
    colours: Colours,
    target: float | None,
    overlay: Overlay,
) -> Panel:
    reading = words.balanced_reading(points[-1])
    heading: dict[str, Any]
    if sheet.layout == "wide":
        heading = {"text": f"Balanced accuracy — {reading}", "fontSize": 16}
    else:
        heading = {"text": "Balanced accuracy", "fontSize": 14, "subtitle": reading}
    drawn = view.cut(points, limit=_POINTS)
    if any(mark.kind == "change" for mark in overlay.marks):
        # Room above the plot for the texts of the marks.
        heading["offset"] = 26
    every = [*drawn, *overlay.lately]
    domain = view.percent_domain(every, target=target)
    x_title = [_X_TITLE[view.x]]
    if view.is_cut(every, domain[0]):
        note = [
            f"The axis begins at {words.chosen(domain[0])};",
            "at first the band reached further down.",
        ]
        # One line would be wider than a narrow panel and push it aside.
        x_title += [" ".join(note)] if sheet.layout == "wide" else note
    return Panel(
        number=0,
        points=drawn,
        heading=heading,
        colour=colours.balanced,
        width=sheet.panel_width(1),
        height=sheet.large_height,
        y_domain=domain,
        x_title=x_title if len(x_title) > 1 else x_title[0],
        target=target,
        margin=axes.MARGIN,
        overlay=overlay,
    )


def _small_panels(classes: Sequence[_Class], view: View, sheet: Sheet) -> list[Panel]:
    columns = sheet.columns(len(classes))
    width = sheet.panel_width(columns)
    height = axes.SMALL_HEIGHT.get(columns, 120)
    limit = min(_POINTS, max(80, width // 2))
    cuts = [view.cut(one.points, limit=limit) for one in classes]
    # One vertical axis for all classes, so that heights can be compared.
    domain = view.percent_domain(point for points in cuts for point in points)
    panels = []
    for number, (one, points) in enumerate(zip(classes, cuts, strict=True), 1):
        reading = words.class_reading(one.points[-1])
        heading = {
            "text": words.shorten(one.name, width // _LETTER),
            "fontSize": 13,
            # Beyond two columns a panel is narrower than the whole reading.
            "subtitle": list(reading) if columns > 2 else ", ".join(reading),
        }
        panel = Panel(
            number=number,
            points=points,
            heading=heading,
            colour=one.colour,
            width=width,
            height=110 if sheet.layout == "narrow" else height,
            y_domain=domain,
            has_y_labels=sheet.has_all_axes(columns) or number % columns == 1,
        )
        panels.append(panel)
    return panels


def _page(
    rows: list[dict[str, Any]],
    *,
    colours: Colours,
    heading: dict[str, Any],
    description: str,
) -> dict[str, Any]:
    return {
        "$schema": _SCHEMA,
        "description": description,
        "background": colours.background,
        "padding": 12,
        "title": heading,
        "vconcat": rows,
        "spacing": 28,
        "config": settings(colours),
    }


def _empty(title: str, sheet: Sheet, colours: Colours) -> dict[str, Any]:
    said = {"type": "text", "text": "No labels yet", "fontSize": 18}
    panel = {
        "width": sheet.width,
        "height": sheet.large_height,
        "data": {"values": [{}]},
        "mark": said | {"color": colours.muted},
    }
    return _page(
        [panel],
        colours=colours,
        heading=_heading(title, ["The chart begins with the first label."], sheet),
        description=f"{words.plain(title)}: no labels yet.",
    )


def _heading(title: str, notes: list[str], sheet: Sheet) -> dict[str, Any]:
    size = 18 if sheet.layout == "wide" else 16
    return {
        "text": words.plain(title),
        "fontSize": size,
        "subtitle": " · ".join(notes) if sheet.layout == "wide" else notes,
        "subtitleFontSize": size - 5,
        "limit": sheet.width,
        "offset": 16,
    }


def _describe(  # noqa: PLR0913, PLR0917 - all that is drawn.
    title: str,
    notes: list[str],
    balanced: Moment,
    classes: Sequence[_Class],
    target: float | None,
    overlay: Overlay,
) -> str:
    sentences = [
        f"How the intervals of {words.plain(title)} tightened as labels arrived",
        *(note[:1].upper() + note[1:] for note in notes),
        f"Balanced accuracy — {words.aloud(words.balanced_reading(balanced))}",
    ]
    for one in classes:
        reading = ", ".join(words.class_reading(one.points[-1]))
        sentences.append(f"{one.name} — {words.aloud(reading)}")
    if target is not None:
        sentences.append(f"The target is {words.chosen(target)}")
    if overlay.lately:
        last = overlay.lately[-1]
        said = f"{words.accuracy(last) or 'no estimate'} ({words.interval(last)})"
        sentences.append(f"The {overlay.lately_name} — {words.aloud(said)}")
    sentences += [mark.text for mark in overlay.marks if mark.kind == "change"]
    sentences += [
        f"{state.verdict} since label {state.labels:,}" for state in overlay.states[-1:]
    ]
    return ". ".join(sentences) + "."
