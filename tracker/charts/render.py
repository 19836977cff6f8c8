"""The chart as an SVG text or a PNG file, drawn in this process.

Drawing takes a fifth of a second, and a large PNG twice that, while Python's lock is
held.  So the last pictures are cached, each under its whole specification, data
included: new labels make another picture.
"""

import json
from functools import lru_cache
from typing import Any
from xml.sax.saxutils import quoteattr

# The page draws with the same release; see static/vendor/README.md.
_VEGA_LITE = "6.4"

_ADDRESSES = {"url", "href"}

# A picture with its specification takes about 200 KB.
_MOST_KEPT = 64

# vl-convert brings a JavaScript engine of 100 MB, so it is imported where it is
# used.  The engine's threads do not survive a fork: a child forked after its parent
# has drawn waits for ever.


def render_svg(spec: dict[str, Any]) -> str:
    """Return *spec* drawn as SVG; raises ValueError if it names an address to load."""
    return str(_draw(_picture(spec), str(spec.get("description", ""))))


def render_png(spec: dict[str, Any], *, scale: float = 2) -> bytes:
    """Return *spec* drawn as PNG; raises ValueError if it names an address to load."""
    return bytes(_draw(_picture(spec), scale=scale))


@lru_cache(maxsize=_MOST_KEPT)
def _draw(picture: str, said: str = "", *, scale: float | None = None) -> Any:
    import vl_convert  # noqa: PLC0415 - see above.

    options: Any = {"vl_version": _VEGA_LITE, "allowed_base_urls": []}
    if scale is not None:
        return vl_convert.vegalite_to_png(picture, scale=scale, **options)
    svg = vl_convert.vegalite_to_svg(picture, **options)
    return svg.replace("<svg ", f'<svg role="img" aria-label={quoteattr(said)} ', 1)


def without_pointer(spec: dict[str, Any]) -> dict[str, Any]:
    """Return *spec* without the layers for a pointer, 40 % of an SVG document."""
    bare = dict(spec)
    for key in ("vconcat", "concat", "layer"):
        if key in bare:
            bare[key] = [without_pointer(p) for p in bare[key] if "params" not in p]
    return bare


def _picture(spec: dict[str, Any]) -> str:
    # The renderer's own list of allowed addresses covers data only: it loads images
    # from anywhere, and holds Python's lock while it waits.
    if _names_an_address(spec):
        raise ValueError("a chart loads nothing: its data are inline")
    return json.dumps(without_pointer(spec), allow_nan=False)


def _names_an_address(node: object) -> bool:
    if isinstance(node, dict):
        # Rows of data are many, and nothing in them is loaded.
        children = [node[key] for key in node if key != "values"]
        return not _ADDRESSES.isdisjoint(node) or any(map(_names_an_address, children))
    return isinstance(node, list) and any(map(_names_an_address, node))
