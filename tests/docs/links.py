"""Finds links of pages in Markdown that lead nowhere: to a file that is not there, or to a heading that its page does not have.

In: paths of pages, and the folder of the repository. Out: a line for each such link. Addresses of other hosts are not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

_FENCED = re.compile(r"^```.*?^```[^\S\n]*$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n?|[^\S\n]*\n)+")
_CODE = re.compile(r"`+[^`]*`+")
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|href)=\"([^\"]*)\"")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
_NAMED = re.compile(r"<[^>]+\b(?:id|name)=\"([^\"]+)\"")


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Blanks out what a pattern matches, so that lines keep their numbers."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


@cache
def anchors(page: str) -> frozenset[str]:
    """Returns the names by which a link can lead into a page: its headings in the form that sites give them, and what has an id."""
    text = _without(_FENCED, page)
    names, seen = set(_NAMED.findall(text)), Counter[str]()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        names.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(names)


def links(page: str) -> list[tuple[int, str]]:
    """Returns the line and the target of every link that is not within code."""
    text = _without(_CODE, _without(_INDENTED, _without(_FENCED, page)))
    return [(text.count("\n", 0, m.start()) + 1, m[1] if m[1] is not None else m[2]) for m in _LINK.finditer(text)]


def broken(path: Path, root: Path) -> list[str]:
    """Returns what is wrong with the links of a page."""
    faults = []
    for line, target in links(path.read_text()):
        file, _, anchor = target.partition("#")
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue
        to = (path.parent / unquote(file)).resolve() if file else path
        place = f"{path.relative_to(root)}:{line}: ({target})"
        if not target:
            faults.append(f"{place} is empty")
        elif not to.is_relative_to(root):
            faults.append(f"{place} is outside of the repository")
        elif not to.exists():
            faults.append(f"{place} is not there")
        elif anchor and (to.suffix != ".md" or unquote(anchor) not in anchors(to.read_text())):
            faults.append(f"{place}: {to.relative_to(root)} has no heading {anchor!r}")
    return faults
