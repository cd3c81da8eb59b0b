"""The ops on lists: values that hold any number of tensors of one dtype and rank, or of lists.

    list(values…; element="")                  these, in order; `element` is the type where there are none, optional=true makes an optional
    list_insert(list, value, at)               the list with a value more, before position `at`, at the end if there is none
    list_erase(list, at)                       the list without the element at a position, the last if there is none
    list_at(list, at)                          an element
    list_length(list)                          how many there are: i64[]
    list_split(x, sizes; axis, keepdims)       a tensor in pieces of a size, of these sizes, or one by one

Lists are values like any other: an op never changes its operand. Positions may count from the end. What a list is known to hold, because it
was put there in sight, needs no list at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.dims import Dim, Size, fresh
from anyshape.dtypes import parse_dtype
from anyshape.errors import DtypeError, ShapeError
from anyshape.graph.infer import Inference
from anyshape.graph.joining import joined_list
from anyshape.graph.loops import no_relation
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef, Structure
from anyshape.graph.truth import check_single
from anyshape.graph.value import Contents, Node, Value
from anyshape.rules import Bound
from anyshape.types import DIFFERS, FunctionType, ListType, TensorType, list_of, parse_type

Items = list[Value]
INDEX = TensorType(parse_dtype("i64"), ())


def known_items(v: Value) -> Items | None:
    """The elements of a list if all of them are in sight."""
    steps: list[Node] = []
    while v.node is not None and v.node.op in (INSERT, ERASE):
        steps.append(v.node)
        v = operand(v.node, 0)
    if v.node is None or v.node.op is not LIST:
        return None
    items = [i for i in v.node.inputs if i is not None]
    for node in reversed(steps):
        at = _position(node.inputs[-1], len(items), node.op is INSERT)
        if at is None:
            return None
        if node.op is INSERT:
            items.insert(at, operand(node, 1))
        else:
            del items[at]
    return items


def _position(at: Value | None, n: int, between: bool) -> int | None:
    """A position in a list of n, or `between` its elements, from 0 on, the last where none is said; None if it is not known, or is none."""
    last = n if between else n - 1
    known = last if at is None else at.contents[0] if at.contents else None
    if not isinstance(known, int):
        return None
    known += n if known < 0 else 0
    return known if 0 <= known <= last else None


def operand(node: Node, k: int) -> Value:
    """Returns an operand that every call on a list has."""
    v = node.inputs[k]
    assert v is not None
    return v


def _list_type(node: Node) -> ListType:
    t = operand(node, 0).type
    if not isinstance(t, ListType):
        raise DtypeError(f"{node.op.full_name}: its first operand must be a list, got {t}")
    return t


def _check_position(node: Node) -> None:
    at = node.inputs[-1]
    if at is None:
        return
    if not at.type.dtype.is_index:
        raise DtypeError(f"{node.op.full_name}: a position must be an integer, got {at.type}")
    check_single(node.op.full_name, "a position", at)


def _inference(
    t: TensorType, contents: Contents | None = None, data_dependent: Mapping[Dim, tuple[int, int]] | None = None
) -> Inference:
    return Inference((t,), (contents,), (), Bound({}, {"unbacked": dict(data_dependent or {})}), dtypes={})


def _sized(t: TensorType, name: str = "?") -> tuple[TensorType, dict[Dim, tuple[int, int]]]:
    """An element's type for one element, and which result dims are symbols of it alone."""
    if isinstance(t, ListType) or t.shape is None:
        return t, {}
    shape = tuple(fresh(name, 0) if n is DIFFERS else n for n in t.shape)
    positions = {
        n: (0, k) for k, (n, m) in enumerate(zip(shape, t.shape, strict=True)) if m is DIFFERS and isinstance(n, Dim)
    }
    return TensorType(t.dtype, shape), positions


class _Unsimplified:
    """An op that is what it is, whatever is known of its operands."""

    def simplify(self, node: Node) -> Sequence[Value] | None:
        return None


class _MakeList(_Unsimplified):
    def infer(self, node: Node) -> Inference:
        optional = bool(node.attrs.get("optional", False))
        said = node.attrs.get("element", "")
        values = [v.type for v in node.inputs if v is not None]
        if optional and len(values) > 1:
            raise ShapeError(f"list: an optional holds at most one element, got {len(values)}")
        _check_elements(node, values)
        lists = [list_of(t, optional) for t in values]
        if said:
            element = parse_type(str(said))
            lists.insert(
                0, list_of(element, optional, never=element.shape is None and not isinstance(element, ListType))
            )
        if not lists:
            raise ShapeError('list: it is empty, and its element type is not known; pass element="f32[...]"')
        sides = [f"by element {k}" for k in range(len(values))]
        sides[:0] = ["as declared"] * (len(lists) - len(values))
        joined = lists[0]
        for k in range(1, len(lists)):
            joined = joined_list(joined, lists[k], "list: it", (sides[0], sides[k]))
        return _inference(joined)


class _Insert(_Unsimplified):
    def infer(self, node: Node) -> Inference:
        t = _list_type(node)
        _check_position(node)
        if t.optional:
            raise DtypeError(f"{node.op.full_name}: {t} is not a list; make a new optional instead")
        _check_elements(node, [operand(node, 1).type])
        added = list_of(operand(node, 1).type)
        return _inference(joined_list(t, added, f"{node.op.full_name}: the list", ("before", "by what is inserted")))


class _Erase(_Unsimplified):
    def infer(self, node: Node) -> Inference:
        t = _list_type(node)
        _check_position(node)
        _check_filled(node, t)
        return _inference(t)


def _check_elements(node: Node, types: Sequence[TensorType]) -> None:
    for t in types:
        if isinstance(t, FunctionType):
            raise DtypeError(f"{node.op.full_name}: elements of a list must be tensors or lists, got {t}")


def _check_filled(node: Node, t: ListType) -> None:
    if t.never:
        raise ShapeError(f"{node.op.full_name}: the list is empty; nothing was put into it")


class _At:
    def infer(self, node: Node) -> Inference:
        t = _list_type(node)
        _check_position(node)
        _check_filled(node, t)
        known = self._known_element(node)
        element, positions = _sized(t.element if known is None else known.type)
        return _inference(element, None, positions)

    @staticmethod
    def _known_element(node: Node) -> Value | None:
        """The element taken out of the list, if it is known."""
        items = known_items(operand(node, 0))
        at = _position(node.inputs[-1], len(items), False) if items else None
        return None if items is None or at is None else items[at]

    def simplify(self, node: Node) -> Sequence[Value] | None:
        known = self._known_element(node)
        return None if known is None else [known]


class _Length(_Unsimplified):
    def infer(self, node: Node) -> Inference:
        _list_type(node)
        items = known_items(operand(node, 0))
        length: Size = fresh("length", 0) if items is None else len(items)
        return _inference(INDEX, (length,))


class _ListSplit:
    """The op `list_split`: replaced by other ops as soon as the rank is known (`expansion.list_split`)."""

    def infer(self, node: Node) -> Inference:
        x, sizes = operand(node, 0).type, node.inputs[1]
        if isinstance(x, ListType):
            raise DtypeError(f"{node.op.full_name}: its first operand must be a tensor, got {x}")
        axis = axis_of_split(node)
        if sizes is not None:
            if not sizes.type.dtype.is_index:
                raise DtypeError(f"{node.op.full_name}: sizes must be integers, got {sizes.type}")
            if (sizes.type.rank or 0) > 1:
                raise ShapeError(f"{node.op.full_name}: sizes must be a scalar or a vector, got {sizes.type}")
        if axis is None or x.shape is None:
            return _inference(list_of(TensorType(x.dtype, None)))
        kept = sizes is not None or bool(node.attrs.get("keepdims", True))
        piece: tuple[Size, ...] = (DIFFERS if sizes is not None else 1,) if kept else ()
        return _inference(list_of(TensorType(x.dtype, (*x.shape[:axis], *piece, *x.shape[axis + 1 :]))))

    def simplify(self, node: Node) -> Sequence[Value] | None:
        return None


def axis_of_split(node: Node) -> int | None:
    """The axis along which a tensor is split, from 0 on; None while the rank is not known. Raises ShapeError where there is none."""
    axis, t = int(node.attrs.get("axis", 0)), operand(node, 0).type
    if t.rank is None:
        return None
    if not -t.rank <= axis < t.rank:
        raise ShapeError(f"{node.op.full_name}: {axis} is not an axis of {t}")
    return axis % t.rank


def _op(
    name: str, inputs: tuple[InputDef, ...], params: tuple[ParamDef, ...], structure: Structure, summary: str
) -> OpDef:
    outputs = (OutputDef("result", "T"),)
    return OpDef(
        name=name,
        variant="",
        inputs=inputs,
        params=params,
        outputs=outputs,
        dtypes={},
        relation=no_relation,
        summary=summary,
        structure=structure,
    )


_ONE = (InputDef("list", "L"),)
_AT = ParamDef("at", "int", False, operand=True)
LIST = _op(
    "list", (InputDef("values", "T", variadic=True),),
    (ParamDef("element", "str", False, ""), ParamDef("optional", "bool", False, False)), _MakeList(), "A list of these.",
)  # fmt: skip
INSERT = _op("list_insert", (*_ONE, InputDef("value", "T")), (_AT,), _Insert(), "The list with an element more.")
ERASE = _op("list_erase", _ONE, (_AT,), _Erase(), "The list without an element.")
AT = _op("list_at", _ONE, (_AT,), _At(), "An element of a list.")
LENGTH = _op("list_length", _ONE, (), _Length(), "How many elements a list has.")
SPLIT = _op(
    "list_split", (InputDef("x", "T"), InputDef("sizes", "I", optional=True)),
    (ParamDef("axis", "int", False, 0), ParamDef("keepdims", "bool", False, True)), _ListSplit(), "A tensor in pieces.",
)  # fmt: skip

LIST_OPS: Mapping[str, OpDef] = {op.full_name: op for op in (LIST, INSERT, ERASE, AT, LENGTH, SPLIT)}
