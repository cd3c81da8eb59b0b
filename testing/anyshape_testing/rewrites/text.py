"""What the text of a rewrite says of its instances: the pattern, the term, and what the condition reads and compares with."""

from __future__ import annotations

import ast
import re

from anyshape.graph.opdef import RewriteDef
from anyshape_testing.calls.call import variants
from anyshape_testing.calls.dtypes import computed


def name_of(pattern: ast.Call) -> str:
    assert isinstance(pattern.func, ast.Name)
    return pattern.func.id


def elements_read(rewrite: RewriteDef) -> frozenset[str]:
    """Lists the operands of which the condition reads elements: `r[()]`, `finite(w)`."""
    return frozenset(re.findall(r"\w+(?=\[\(\)\])|(?<=\bfinite\()\w+", rewrite.text))


def single_elements(rewrite: RewriteDef) -> frozenset[str]:
    """Lists the operands that have one element, if the condition is to hold."""
    return frozenset(re.findall(r"prod\(shape\((\w+)\)\) == 1", rewrite.text))


def numbers_of(rewrite: RewriteDef) -> tuple[int, ...]:
    """Lists the numbers but 0 and 1 that the condition says something is equal to."""
    return tuple(sorted({int(n) for n in re.findall(r" == (-?\d+)", rewrite.text)} - {0, 1}))


def pattern_of(rewrite: RewriteDef) -> ast.Call:
    """Parses the left side of a rewrite, without the name it may be given."""
    left = rewrite.text.split(">>")[0].split(" as ")[0].strip()
    pattern = ast.parse(left, mode="eval").body
    assert isinstance(pattern, ast.Call)
    return pattern


def term_of(rewrite: RewriteDef) -> ast.expr:
    """Parses the right side of a rewrite, without its condition."""
    return ast.parse(rewrite.text.split(">>")[1].split(" if ")[0].strip(), mode="eval").body


def calls_within(rewrite: RewriteDef) -> int:
    """Counts the calls of the pattern but the outermost one: the more of them have to fit each other, the rarer do they."""
    return max(sum(isinstance(n, ast.Call) for n in ast.walk(pattern_of(rewrite))) - 1, 1)


def first_dtypes(rewrite: RewriteDef) -> list[tuple[str, str]]:
    """Lists each dtype that an innermost call of the pattern allows, with its variable."""
    calls = [n for n in ast.walk(pattern_of(rewrite)) if isinstance(n, ast.Call)]
    inner = {a for c in calls for a in (*c.args, *(k.value for k in c.keywords)) if isinstance(a, ast.Call)}
    innermost = [c for c in calls if inner.isdisjoint((*c.args, *(k.value for k in c.keywords)))]
    names = [c.func.id for c in innermost if isinstance(c.func, ast.Name)]
    return list(
        dict.fromkeys(
            (v, d) for name in names for v, allowed in variants(name)[0].dtypes.items() for d in computed(allowed)
        )
    )


def dtypes_of_term(rewrite: RewriteDef) -> dict[str, list[str]]:
    """Lists, for each dtype variable of innermost calls, the dtypes that calls of the term take; nothing where it has no calls."""
    calls = [n for n in ast.walk(term_of(rewrite)) if isinstance(n, ast.Call)]
    names = [c.func.id for c in calls if isinstance(c.func, ast.Name)]
    taken = {d for name in names for allowed in variants(name)[0].dtypes.values() for d in computed(allowed)}
    some: dict[str, list[str]] = {}
    for v, d in first_dtypes(rewrite):
        if d in taken:
            some.setdefault(v, []).append(d)
    return some
