"""Draws what is generated from the entry of an op: `python -m website.overview repeat docs/pictures/overview.svg`.

In: the name of an op of `specs/`. Out: an SVG with its entry on one side and on the other what there is because of it, as the op's
definition, its properties and the generated files say.
"""

from __future__ import annotations

import ast
import html
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anyshape_testing.calls.call import variants
from anyshape_testing.calls.packages import register
from anyshape_testing.laws.catalogue import LAWS

ROOT = Path(__file__).parents[1]
OPS = ROOT / "generated/anyshape_ops"
INK, FAINT, FRAME, PAPER, GREEN = "#1c2b2a", "#5c6b69", "#c9d3d1", "#ffffff", "#2a7f62"
WIDTH, LEFT_WIDTH, GAP, LINE, BOX = 980, 530, 70, 18, 44
MARGIN, HEAD = 16, 34


@dataclass(frozen=True, slots=True)
class Result:
    """What is generated of an entry: its name, and one line about it."""

    name: str
    detail: str


def entry(place: str) -> list[str]:
    """Returns the lines of the entry at `file:line`, without its examples."""
    file, _, line = place.rpartition(":")
    lines = (ROOT / file).read_text().splitlines()[int(line) - 1 :]
    end = next(k for k, text in enumerate(lines) if k and not text.startswith("    "))
    body = lines[:end]
    return [text[2:] for text in body[: next((k for k, t in enumerate(body) if t.startswith("    examples:")), end)]]


def length_of(kind: str, name: str) -> int:
    """Counts the lines of the generated functions of one kind that belong to an op."""
    functions = (
        node
        for path in sorted((OPS / kind).glob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    return sum((f.end_lineno or f.lineno) - f.lineno + 1 for f in functions)


def results(name: str) -> Iterator[Result]:
    """Lists what is made of an op's entry."""
    p = register("anyshape_ops")[name]
    forms = variants(p.op)
    laws = [law.number for law in LAWS if law.silent(p) is None]
    yield Result(
        "type relation and shape function",
        f"{length_of('relations', f'{name}_relation')} lines, on numbers and on symbols",
    )
    if len(forms) > 1:
        yield Result(
            "dynamic and static variants",
            f"{forms[1].full_name} becomes {forms[0].full_name} where its operand is known",
        )
    yield Result(
        "native kernel",
        f"{length_of('kernels', f'{name}_kernel')} lines of equations, compiled by LLVM for all sizes at once",
    )
    yield Result("gradient, batching", "the adjoint of the equations; an operator of torch.library")
    yield Result("import and export", "a node of ONNX, a function in C, a custom op of onnxruntime")
    yield Result("errors", "in the words of its asserts, with the sizes of the call")
    yield Result("reference page", f"docs/ops/{name}.md")
    yield Result("property tests", f"{len(laws)} laws on random calls, and its examples")


def svg(name: str) -> str:
    """Draws the picture."""
    lines, generated = entry(register("anyshape_ops")[name].source), list(results(name))
    height = MARGIN * 2 + HEAD + max(len(lines) * LINE + 20, len(generated) * BOX)
    right = MARGIN + LEFT_WIDTH + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}">',
        f"<title>What is generated from the entry of {html.escape(name)}</title>",
        _rectangle(0, 0, WIDTH, height, "none"),
        f'<text x="{MARGIN}" y="{MARGIN + 14}" font-weight="600">one entry in YAML</text>',
        f'<text x="{right}" y="{MARGIN + 14}" font-weight="600">all that is generated from it</text>',
    ]
    top, tall = MARGIN + HEAD - 8, len(lines) * LINE + 20
    down = (len(generated) * BOX - 8 - tall) // 2 if len(generated) * BOX > tall else 0
    parts.append(_rectangle(MARGIN, top + down, LEFT_WIDTH, tall, FRAME))
    for k, text in enumerate(lines):
        parts.append(
            f'<text x="{MARGIN + 12}" y="{top + down + 23 + k * LINE}" font-family="ui-monospace, monospace" font-size="10.5" '
            f'xml:space="preserve">{html.escape(text)}</text>'
        )
    middle = top + down + tall // 2
    for k, result in enumerate(generated):
        y = top + k * BOX
        bend = MARGIN + LEFT_WIDTH + GAP // 2
        parts += [
            f'<path d="M{MARGIN + LEFT_WIDTH} {middle}C{bend} {middle} {bend} {y + 18} {right - 4} {y + 18}" fill="none" '
            f'stroke="{GREEN}" stroke-width="1.5"/>',
            _rectangle(right, y, WIDTH - right - MARGIN, BOX - 8, FRAME),
            f'<text x="{right + 10}" y="{y + 15}" font-weight="600" font-size="12">{html.escape(result.name)}</text>',
            f'<text x="{right + 10}" y="{y + 29}" fill="{FAINT}" font-size="10.5">{html.escape(result.detail)}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def _rectangle(x: int, y: int, width: int, height: int, stroke: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{PAPER}" stroke="{stroke}"/>'


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    Path(sys.argv[2]).write_text(svg(sys.argv[1]))


if __name__ == "__main__":
    main()
