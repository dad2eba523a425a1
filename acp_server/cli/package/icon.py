"""The icon of an agent in the registry: square, 16x16, in the colour of the text around it."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

_SIZE: Final = 16
_COLOURS: Final = ("currentcolor", "none", "inherit")
_PAINT: Final = ("fill", "stroke")
_STYLE: Final = re.compile(r"\b(fill|stroke)\s*:\s*([^;}\s]+)")

DRAWN: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" \
stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">
  <path d="M2.75 2.75h10.5v8.5H7l-2.75 2.5v-2.5h-1.5z"/>
  <path d="M5 5.25 6.75 7 5 8.75M8.5 8.75H11"/>
</svg>
"""
"""A prompt in a speech bubble, for agents that have no icon of their own."""


def icon_faults(svg: str) -> list[str]:
    """What the registry would refuse about an icon, in words."""
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        return [f"the icon is not SVG: {error}"]
    faults: list[str] = []
    box = root.get("viewBox", "").split()
    size = [root.get("width"), root.get("height")]
    size = size if all(size) else box[2:]
    if [str(side).removesuffix("px").removesuffix(".0") for side in size] != [str(_SIZE)] * 2:
        faults.append(f"the icon is not {_SIZE}x{_SIZE}: {'x'.join(map(str, size)) or 'it has no size'}")
    used = [value for element in root.iter() for value in _paints(element)]
    faults += [
        f"the icon has the colour {value}: only currentColor and none follow the editor's theme"
        for value in dict.fromkeys(used)
        if value.lower() not in _COLOURS
    ]
    if "currentcolor" not in [value.lower() for value in used]:
        faults.append("the icon does not use currentColor, so it is black in every theme")
    return faults


def _paints(element: ET.Element) -> list[str]:
    found = [value.strip() for name in _PAINT if (value := element.get(name))]
    style = element.get("style", "") + (element.text or "" if element.tag.endswith("style") else "")
    return found + [value for _, value in _STYLE.findall(style)]
