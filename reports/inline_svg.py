"""matplotlib's SVG made fit to stand inside a page: no styles of its own, ids of its own, the page's ink.

A page's policy forbids style attributes, so each becomes presentation attributes, which say the same. Ids get a prefix,
since two charts of one page would share some. Black turns into the ink of the page, white into its paper, so that a
chart can be read in the dark as well.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Tree

from proofcost.reports.as_pictures import INK

_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_PAPER = ("#ffffff", "white")
_DROPPED = {"metadata", "style", "title", "desc"}


def inline(svg: bytes, prefix: str, title: str, desc: str) -> str:
    """The `<svg>` element for a page. `title` and `desc` are for who cannot see it."""
    root = Tree.fromstring(svg)
    for element in list(root.iter()):
        for child in list(element):
            if _bare(child.tag) in _DROPPED:
                element.remove(child)
    for element in root.iter():
        element.tag = _bare(element.tag)
        element.attrib = _attributes(dict(element.attrib), prefix)
        element.tail = None
        element.text = None if element.tag != "text" else element.text
    root.attrib.pop("version", None)
    root.attrib |= {
        "role": "img",
        "aria-labelledby": f"{prefix}-title",
        "aria-describedby": f"{prefix}-desc",
        "fill": "currentColor",
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    for at, (name, text) in enumerate((("title", title), ("desc", desc))):
        made = Tree.Element(name, {"id": f"{prefix}-{name}"})
        made.text = text
        root.insert(at, made)
    return Tree.tostring(root, encoding="unicode")


def _bare(name: str) -> str:
    return name.rpartition("}")[2]


def _attributes(given: dict[str, str], prefix: str) -> dict[str, str]:
    made: dict[str, str] = {}
    style = given.pop("style", "")
    for key, value in given.items():
        made[_bare(key)] = value
    for declaration in filter(None, map(str.strip, style.split(";"))):
        key, _, value = declaration.partition(":")
        made[key.strip()] = value.strip()
    for key, value in made.items():
        if key == "id":
            made[key] = f"{prefix}-{value}"
        elif key == "href" and value.startswith("#"):
            made[key] = f"#{prefix}-{value[1:]}"
        elif "url(#" in value:
            made[key] = _REFERENCE.sub(lambda found: f"url(#{prefix}-{found.group(1)})", value)
        elif key in ("fill", "stroke") and value.lower() == INK:
            made[key] = "currentColor"
        elif key == "fill" and value.lower() in _PAPER:
            made[key] = "none"
    return made
