"""What the functions of the language do, as an editor shows it: a call, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class FunctionDoc:
    """A function of the language."""

    call: str
    text: str


def _table(*entries: tuple[str, str]) -> Mapping[str, FunctionDoc]:
    return {call.partition("(")[0]: FunctionDoc(call, text) for call, text in entries}


FUNCTION_DOCS = _table(
    ("len(v)", "The number of items of a vector, or of tensors of a variadic input."),
    ("fill(n, x)", "A vector of n items x."),
    ("put(v, positions, items)", "The vector with these items at these positions."),
    ("range(a, b)", "The vector of a, a + 1, … up to b - 1; `range(n)` begins at 0."),
    ("prefix(v)", "For each item of a vector, the sum of those before it."),
    ("zip(v, w, …)", "Items of several vectors at the same positions, for a comprehension."),
    ("enumerate(v)", "Positions and items of a vector, for a comprehension."),
    ("sorted(v)", "The items, smallest first."),
    ("unique(v)", "The items without repetitions, in the order in which they come first."),
    ("list(text)", "The vector of the characters of a string."),
    ("index(v, item)", "The position of an item."),
    ("sum(v)", "The sum of a vector, or of `e for k in n if c`."),
    ("prod(v)", "The product of a vector, or of `e for k in n if c`."),
    ("count(c for k in n)", "How often the condition holds; of elements, a data-dependent size."),
    ("any(c for k in n)", "Whether the condition holds once."),
    ("all(c for k in n)", "Whether the condition holds always."),
    ("min(a, b, …)", "The least argument, item of a vector, or `e for k in n if c`."),
    ("max(a, b, …)", "The greatest argument, item of a vector, or `e for k in n if c`."),
    ("ravel(i, d)", "The number of an index in row-major order of the dims d."),
    ("unravel(p, d)", "The index of a number in row-major order of the dims d."),
    ("shape(x)", "The dims of an input, as a vector."),
    ("rank(x)", "The number of dims of an input."),
    ("broadcast(p, q, …)", "The shape to which shapes broadcast; an error if they do not."),
    ("broadcasts(p, to)", "Whether a shape broadcasts to another."),
    ("inside(i, d)", "Whether an index is within the dims d."),
    ("present(x)", "Whether an optional input is there."),
    ("infer_size(sizes, n)", "The sizes with a -1 replaced so that their product is n."),
    ("ceil_div(a, b)", "The quotient, rounded up."),
    ("exact_div(a, b)", "The quotient; an error where there is a rest."),
    ("trunc_div(a, b)", "The quotient, rounded towards zero."),
    ("fmod(a, b)", "The rest of the division that rounds towards zero, of the sign of a."),
    ("clamp(x, low, high)", "x, or the nearer bound where it is beyond one."),
    ("wrap(i, n)", "i, counted from the end where it is negative; checked to be within n when it runs."),
    ("reflect(i, n)", "i, mirrored at both ends of 0 … n - 1."),
    ("abs(x)", "The magnitude."),
    ("floor(x)", "Rounded down."),
    ("ceil(x)", "Rounded up."),
    ("round_even(x)", "Rounded to the nearest integer, halves to the even one."),
    ("int(c)", "1 for a condition that holds, else 0; a number as an integer."),
    ("f32(x)", "x as f32."),
    ("f64(x)", "x as f64."),
    ("i32(x)", "x as i32."),
    ("i64(x)", "x as i64."),
    ("sqrt(x)", "The square root."),
    ("exp(x)", "The exponential."),
    ("log(x)", "The natural logarithm."),
    ("is_int(T)", "Whether a dtype is of integers."),
    ("is_float(T)", "Whether a dtype is of floats."),
    ("is_narrow_float(T)", "Whether a dtype is f16 or bf16, whose sums are kept in f32."),
    ("lowest(T)", "The least value of a dtype, minus infinity of floats."),
    ("highest(T)", "The greatest value of a dtype, infinity of floats."),
    ("expm1(x)", "exp(x) - 1, exact near 0."),
    ("log1p(x)", "log(1 + x), exact near 0."),
    ("tanh(x)", "The hyperbolic tangent."),
    ("erf(x)", "The error function."),
    ("sin(x)", "The sine."),
    ("cos(x)", "The cosine."),
    ("cast(e, to)", "The element as another dtype, which a parameter may name."),
    ("saturate(e, T)", "The element as an integer dtype, clamped to its range."),
    ("pad(x, v)", "The tensor x with v at indices outside of it: `pad(x, v)[i - 1]`."),
    ("philox(seed, position)", "A random number, a function of both; `F(philox(…))` is within 0 and 1."),
    ("entropy()", "An i64 that differs in every call."),
    ("array(shape, e)", "An array of a procedure, filled with e, or with zeros of a dtype."),
    ("first(e for k in n if c)", "The element at the first position where c holds, else the lowest value."),
    ("last(e for k in n if c)", "The element at the last position where c holds, else the lowest value."),
    ("char(e)", "The character of a code point."),
    ("bitcast(e, T)", "The bits of an element as another dtype of the same size."),
    ("search(c for k in n)", "The number of positions before the first at which c does not hold, by bisection."),
    ("bit_and(a, b)", "The bits that both integers have."),
    ("bit_or(a, b)", "The bits that either integer has."),
    ("bit_xor(a, b)", "The bits that one of two integers has."),
    ("shift_left(a, n)", "The bits of a, n places higher."),
    ("shift_right(a, n)", "The bits of a, n places lower."),
    ("finite(w)", "Whether a constant operand of a rewrite has no infinity and no NaN."),
    ("argsort(v, descending=True)", "The stable order of elements, as positions; NaN is the largest."),
    ("argmax(e for k in n)", "The first position of the greatest element; the last one with `last=True`."),
    ("argmin(e for k in n)", "The first position of the least element; the last one with `last=True`."),
)
