"""What mkdocs calls while it builds the site: pages from outside docs/, the pages of the API, and links between them.

In: docs/ as it is read in the repository, where links go to files. Out: pages of which every link goes to a page of the site.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "runtime/anyshape/__init__.py"
PLAYGROUND = ROOT / "build/playground"
_FENCED = re.compile(r"(^```.*?^```[^\S\n]*$)", re.MULTILINE | re.DOTALL)
_NESTED = re.compile(r"^ {2,3}(?=(?:-|\d+\.) )", re.MULTILINE)
_LINK = re.compile(r"(?P<label>\[[^\]]*\])\((?P<to>(?![a-z]+:|#)[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def outside_pages() -> dict[str, str]:
    """Maps pages outside docs/, by their paths in the repository, to their paths in the site."""
    examples = {
        f"examples/{p.parent.name}/README.md": f"examples/{p.parent.name}.md" for p in ROOT.glob("examples/*/README.md")
    }
    return {"SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md", **examples}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages that are not in docs/."""
    for source, place in outside_pages().items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    for place, text in api_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lets links go to pages of the site, where of a link to another file of the repository only its label is left; and indents items of
    lists within lists by four columns, without which Python-Markdown takes them for items of the outer list."""
    outside = outside_pages()
    place = page.file.src_uri
    source = next((s for s, p in outside.items() if p == place), f"docs/{place}")

    def linked(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["to"]))
        target = outside.get(path) or outside.get(f"{path}/README.md")
        if target is None and path.startswith("docs/"):
            target = path.removeprefix("docs/")
        if target is None:
            return match["label"][1:-1]
        relative = posixpath.relpath(target, posixpath.dirname(place) or ".")
        return f"{match['label']}({relative}{match['anchor'] or ''})"

    texts = _FENCED.split(_LINK.sub(linked, markdown))
    return "".join(text if text.startswith("```") else _NESTED.sub("    ", text) for text in texts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links the playground's page, which is a part of the site where it was built, below the title of what is written about it."""
    if page.file.src_uri != "playground.md" or not (PLAYGROUND / "index.html").is_file():
        return html
    return html.replace(
        "</h1>", '</h1>\n<p><a class="md-button" href="playground/index.html">Open the playground</a></p>', 1
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Puts the playground into the site, if it was built (`make playground`)."""
    if (PLAYGROUND / "index.html").is_file():
        shutil.copytree(PLAYGROUND, Path(config.site_dir, "playground"), dirs_exist_ok=True)


def api_pages() -> dict[str, str]:
    """Writes the pages of the API, by the public names of `anyshape`: one of classes and functions, and one of each module."""
    tree = ast.parse(PACKAGE.read_text())
    tables: dict[str, Any] = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("__all__", "_ROOMS")
    }
    rooms: dict[str, str] = tables["_ROOMS"]
    names = sorted(
        (name for name in tables["__all__"] if name not in rooms), key=lambda name: (not name[0].islower(), name)
    )
    listed = "\n".join(f"- [`anyshape.{room}`]({room}.md)" for room in sorted(rooms))
    members = "\n".join(f"::: anyshape.{name}\n" for name in names)
    head = f"# API reference\n\nThe public names of `anyshape`, functions first. Modules have pages of their own:\n\n{listed}\n\n"
    pages = {room: f"::: {module}\n    options:\n      heading_level: 1\n" for room, module in rooms.items()}
    return {"api/index.md": head + members, **{f"api/{room}.md": text for room, text in pages.items()}}
