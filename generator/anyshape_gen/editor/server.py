"""The language server, `anyshape-gen language-server`: findings, completion, hover and declarations of specs.

In: messages of the Language Server Protocol on standard input, which the package pygls reads. Out: answers on standard output. A file is a
spec if it is in a folder of specs (one with `spec.schema.json`, or called so), or says so in its first line; others have no answers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer

from anyshape.code_version import VERSION
from anyshape_gen.editor.completion import Sort, Suggestion, suggestions
from anyshape_gen.editor.cursor import cursor
from anyshape_gen.editor.diagnostics import Checker, Diagnostic
from anyshape_gen.editor.hover import declaration, hover
from anyshape_gen.editor.inference import analysed
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.parse.library import FILE as LIBRARY
from anyshape_gen.parse.library import SHOWN, own_library
from anyshape_gen.schema import SCHEMA_NAME

PAUSE = 0.3
"""Seconds without a change after which a folder is checked"""
LARGEST = 4 << 20
"""The most bytes of a file beside the open ones that is read"""
log = logging.getLogger("anyshape.language_server")
R = TypeVar("R")
_KINDS = {
    Sort.KEY: lsp.CompletionItemKind.Property,
    Sort.WORD: lsp.CompletionItemKind.Keyword,
    Sort.NAME: lsp.CompletionItemKind.Variable,
    Sort.FUNCTION: lsp.CompletionItemKind.Function,
    Sort.OP: lsp.CompletionItemKind.Class,
    Sort.MODULE: lsp.CompletionItemKind.Module,
}


@dataclass
class Specs:
    """A folder of specs."""

    folder: Path
    checker: Checker = field(default_factory=Checker)
    last: dict[tuple[str, str], OpAnalysis] = field(default_factory=dict)
    """the last analysis of ops, by file and name, for texts that have errors"""
    shown: set[str] = field(default_factory=set)
    """the files whose findings the editor shows"""
    timer: asyncio.TimerHandle | None = None
    check: asyncio.Task[None] | None = None
    """the check that runs"""
    saved: set[str] = field(default_factory=set)
    """files whose indices are to be proved"""

    def name(self, path: Path) -> str:
        """A file as messages and caches name it."""
        return f"{self.folder.name}/{path.name}"

    def uri(self, name: str) -> str:
        """The address of a file of the folder."""
        return (self.folder / Path(name).name).as_uri()


def is_spec(path: Path, text: str) -> bool:
    """Whether a file is a spec."""
    if path.suffix not in (".yaml", ".yml"):
        return False
    return (
        path.parent.name.endswith("specs")
        or SCHEMA_NAME in text.partition("\n")[0]
        or (path.parent / SCHEMA_NAME).is_file()
    )


class Server:
    """The folders of the files that are open in an editor, and what it is told of them."""

    def __init__(self, protocol: LanguageServer) -> None:
        self.protocol = protocol
        self.folders: dict[Path, Specs] = {}

    def specs(self, path: Path) -> Specs:
        return self.folders.setdefault(path.parent, Specs(path.parent))

    def contents(self, specs: Specs) -> dict[str, str]:
        """The texts of a folder: those that are open as the editor has them, others as they are on disk."""
        texts = {}
        for uri, document in self.protocol.workspace.text_documents.items():
            path = Path(uris.to_fs_path(uri) or "")
            if path.parent == specs.folder and is_spec(path, document.source):
                texts[specs.name(path)] = document.source
        for beside in specs.folder.glob("*.yaml"):
            if specs.name(beside) not in texts and (text := _text(beside)) is not None:
                texts[specs.name(beside)] = text
        return dict(sorted(texts.items()))

    def place(self, uri: str) -> Path | None:
        """The path of a spec that is open; None for another file."""
        name = uris.to_fs_path(uri)
        document = self.protocol.workspace.text_documents.get(uri)
        if name is None or document is None:
            return None
        path = Path(name)
        return path if is_spec(path, document.source) else None

    def later(self, uri: str, is_saved: bool = False) -> None:
        """Checks the folder of a file when there was no change for a while."""
        path = self.place(uri)
        if path is None:
            return
        specs = self.specs(path)
        if specs.timer is not None:
            specs.timer.cancel()
        if is_saved:
            specs.saved.add(specs.name(path))
        specs.timer = asyncio.get_running_loop().call_later(PAUSE, self.begin, specs)

    def begin(self, specs: Specs) -> None:
        """Begins to check a folder, once the check that runs has ended."""
        if specs.check is not None and not specs.check.done():
            specs.timer = asyncio.get_running_loop().call_later(PAUSE, self.begin, specs)
        else:
            specs.check = asyncio.ensure_future(self.check(specs))

    async def check(self, specs: Specs) -> None:
        """Checks a folder in a thread, and shows its findings."""
        saved, specs.saved = specs.saved, set()
        try:
            findings = await in_thread(partial(specs.checker.check, self.contents(specs), saved))
            listed = {name for name, diagnostics in findings.items() if diagnostics}
            for name in specs.shown | listed:
                uri = specs.uri(name)
                shown = [self.diagnostic(uri, d) for d in findings.get(name, [])]
                self.protocol.text_document_publish_diagnostics(
                    lsp.PublishDiagnosticsParams(uri=uri, diagnostics=shown)
                )
            specs.shown = listed
        except Exception:
            log.exception("a check failed")

    def diagnostic(self, uri: str, d: Diagnostic) -> lsp.Diagnostic:
        span = d.finding.span
        line = max(span.line - 1, 0)
        return lsp.Diagnostic(
            range=self.range(uri, line, max(span.col - 1, 0), max(span.end - 1, 0)),
            message=d.text,
            severity=lsp.DiagnosticSeverity.Error if d.is_error else lsp.DiagnosticSeverity.Warning,
            source="anyshape-gen",
        )

    def range(self, uri: str, line: int, start: int, end: int) -> lsp.Range:
        """The range of some characters of a line, in the units that the editor counts in."""
        document = self.protocol.workspace.get_text_document(uri)
        plain = lsp.Range(lsp.Position(line, start), lsp.Position(line, end))
        return document.position_codec.range_to_client_units(document.lines, plain)

    def at(self, uri: str, position: lsp.Position) -> tuple[int, int]:
        """The line and the column of a position, in characters."""
        document = self.protocol.workspace.get_text_document(uri)
        plain = document.position_codec.position_from_client_units(document.lines, position)
        return plain.line, plain.character

    def complete(self, uri: str, position: lsp.Position) -> list[lsp.CompletionItem]:
        """What may be written at a position."""
        path = self.place(uri)
        if path is None:
            return []
        specs = self.specs(path)
        contents = _with_library(self.contents(specs))
        line, column = self.at(uri, position)
        return [_item(one) for one in suggestions(contents[specs.name(path)].split("\n"), line, column, contents)]

    def hover(self, uri: str, position: lsp.Position) -> lsp.Hover | None:
        """What the name at a position is."""
        path = self.place(uri)
        if path is None:
            return None
        specs = self.specs(path)
        name, contents = specs.name(path), _with_library(self.contents(specs))
        line, column = self.at(uri, position)
        op = cursor(contents[name].split("\n"), line, column).op or ""
        known = analysed(name, contents[name], op, contents)
        if known is not None:
            specs.last[name, op] = known
        shown = hover(name, line, column, contents, specs.last.get((name, op)))
        if shown is None:
            return None
        text = lsp.MarkupContent(lsp.MarkupKind.Markdown, shown.text)
        return lsp.Hover(text, self.range(uri, line, shown.start, shown.end))

    def declaration(self, uri: str, position: lsp.Position) -> lsp.Location | None:
        """The place where a name is declared; none for a function of anyshape's own library, which is in no folder of the author's."""
        path = self.place(uri)
        if path is None:
            return None
        specs = self.specs(path)
        line, column = self.at(uri, position)
        place = declaration(specs.name(path), line, column, self.contents(specs))
        if place is None:
            return None
        file, name = place
        to = specs.uri(file)
        return lsp.Location(to, self.range(to, name.line, name.column, name.column + len(name.name)))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= LARGEST else None
    except (OSError, UnicodeDecodeError):
        return None


def _with_library(contents: Mapping[str, str]) -> dict[str, str]:
    """The texts of a folder, and that of anyshape's own library where the folder has none."""
    own = {} if any(Path(name).name == LIBRARY for name in contents) else {SHOWN: own_library()}
    return {**contents, **own}


def safely(answer: Callable[[], R], otherwise: R) -> R:
    """An answer, or another where it fails: a half-written text must not end the server."""
    try:
        return answer()
    except Exception:
        log.exception("a message has no answer")
        return otherwise


async def in_thread(work: Callable[[], R]) -> R:
    """The result of work in a thread, which does not keep the process alive when the editor ends it amid a proof."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def answer(set_it: Callable[..., None], value: object) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(set_it, value)

    def run() -> None:
        try:
            answer(done.set_result, work())
        except Exception as e:
            answer(done.set_exception, e)

    threading.Thread(target=run, daemon=True).start()
    return await done


def _item(one: Suggestion) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        label=one.label, kind=_KINDS[one.sort], detail=one.detail or None, documentation=one.doc or None
    )


def serving() -> LanguageServer:
    """The server, with its features."""
    protocol = LanguageServer("anyshape-gen", VERSION)
    server = Server(protocol)

    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.later(params.text_document.uri)

    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.later(params.text_document.uri)

    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.later(params.text_document.uri, is_saved=True)

    async def completion(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        return safely(lambda: server.complete(params.text_document.uri, params.position), [])

    async def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        return safely(lambda: server.hover(params.text_document.uri, params.position), None)

    async def definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        return safely(lambda: server.declaration(params.text_document.uri, params.position), None)

    triggers = lsp.CompletionOptions(trigger_characters=["[", "(", "{", " ", "*", "@"])
    protocol.feature(lsp.TEXT_DOCUMENT_DID_OPEN)(opened)
    protocol.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)(changed)
    protocol.feature(lsp.TEXT_DOCUMENT_DID_SAVE)(saved)
    protocol.feature(lsp.TEXT_DOCUMENT_COMPLETION, triggers)(completion)
    protocol.feature(lsp.TEXT_DOCUMENT_HOVER)(hovered)
    protocol.feature(lsp.TEXT_DOCUMENT_DEFINITION)(definition)
    return protocol


def main() -> int:
    """Serves standard input and output until the editor ends it."""
    serving().start_io()
    return 0
