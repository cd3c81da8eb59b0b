"""The ops of control flow: `if` here, `loop` in `loops`. Generic code knows them only as ops with regions (`opdef.Control`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.dims import Cond, Facts, anonymous_names, not_
from anyshape.errors import DtypeError, ShapeError
from anyshape.graph.function import Function
from anyshape.graph.infer import Inference
from anyshape.graph.joining import data_dependent_dims, exported_contents, exported_type, joined_contents, joined_type
from anyshape.graph.loops import LOOP, no_relation
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef
from anyshape.graph.origins import reworded
from anyshape.graph.regions import failed, params_for, spliced, symbols_of, typed
from anyshape.graph.truth import check_condition, known_truth
from anyshape.graph.value import Node, Value
from anyshape.rules import Bound
from anyshape.rules.vec import Truth
from anyshape.wording import counted


def unlike_branches(then: str, otherwise: str) -> ShapeError:
    return ShapeError(f"if: the branch then has {then}, and the branch otherwise {otherwise}")


class _If:
    """Inputs: what the branches capture; operand: the condition. A branch that cannot be typed is one that fails when it is taken."""

    regions = ("then", "otherwise")
    repeats = False

    def captures_from(self, node: Node) -> int:
        return 0

    def captured(self, node: Node) -> tuple[Value, ...]:
        return tuple(v for v in node.inputs[:-1] if v is not None)

    def assumed(self, node: Node, k: int) -> Truth:
        cond = node.inputs[-1]
        known = cond.contents[0] if cond is not None and cond.contents else True
        if not isinstance(known, bool | Cond):
            return True
        return known if k == 0 else not_(known)

    def may_skip(self, node: Node, k: int) -> bool:
        return known_truth(node.inputs[-1]) is None or known_truth(node.inputs[-1]) is (k == 1)

    def infer(self, node: Node, facts: Facts | None) -> Inference:
        check_condition("if", node.inputs[-1])
        regions = tuple(self._typed(node, k, facts) for k in range(2))
        taken = self._possible(node, regions)
        if len({len(r.results) for r in taken}) > 1:
            raise unlike_branches(*(counted(len(r.results), "result") for r in taken))
        columns = list(zip(*(r.results for r in taken), strict=True))
        outside = symbols_of(node.inputs, facts)
        sides = (f"in the branch {self.regions[0]}", f"in the branch {self.regions[1]}")
        joined = [joined_type(c, f"if: result {k}", sides, facts) for k, c in enumerate(columns)]
        types = tuple(exported_type(t, outside) for t in joined)
        contents = tuple(exported_contents(joined_contents(c), outside) for c in columns)
        positions = data_dependent_dims(types, outside)
        return Inference(
            types, contents, (), Bound({}, {"unbacked": positions}), dtypes={}, undetermined="", regions=regions
        )

    def _typed(self, node: Node, k: int, facts: Facts | None) -> Function:
        region = node.regions[k]
        under = (facts or Facts()).under(self.assumed(node, k))
        try:
            with anonymous_names() as printed:
                return typed(region, self.captured(node), under)
        except (ShapeError, DtypeError) as e:
            if not self.may_skip(node, k):
                raise
            return failed(region.name, params_for(region.params, self.captured(node)), reworded(str(e), node, printed))

    @staticmethod
    def _possible(node: Node, regions: tuple[Function, ...]) -> list[Function]:
        """The branches that decide the results. Raises ShapeError if there is none."""
        known = known_truth(node.inputs[-1])
        left = [r for k, r in enumerate(regions) if known is None or known is (k == 0)]
        possible = [r for r in left if not r.failure]
        if not possible:
            raise ShapeError(f"if: no branch can be taken: {'; '.join(f'{r.name}: {r.failure}' for r in left)}")
        return possible

    def simplify(self, node: Node) -> Sequence[Value] | None:
        known = known_truth(node.inputs[-1])
        return None if known is None else spliced(node.regions[0 if known else 1], self.captured(node))


IF = OpDef(
    name="if", variant="", inputs=(InputDef("captured", "T", variadic=True),), params=(ParamDef("cond", "bool", operand=True),),
    outputs=(OutputDef("results", "T", variadic=True),), dtypes={}, relation=no_relation, summary="One of two regions.", control=_If(),
)  # fmt: skip

CONTROL_OPS: Mapping[str, OpDef] = {op.full_name: op for op in (IF, LOOP)}
