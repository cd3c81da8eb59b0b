"""A schedule as text: the kernels of a function, what they read and make, why fusion made them, and their equations."""

from __future__ import annotations

from anyshape.graph.text import spelled_type, symbol_names, value_names
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, TableStep, step_name


def spell_schedule(schedule: Schedule) -> str:
    names = value_names(schedule.function)
    for step in schedule.steps:
        if isinstance(step, KernelStep):  # what one kernel of a node makes for another is no result of the node
            for v in (*step.inputs, *step.outputs):
                names.setdefault(v, f"%{v.name or f'v{len(names)}'}")
    sizes = symbol_names(schedule.function, names)
    lines: list[str] = []
    for step in schedule.steps:
        if isinstance(step, KernelStep):
            outputs = ", ".join(f"{names[v]}: {spelled_type(v.type, sizes)}" for v in step.outputs)
            lines.append(f"{outputs} = kernel {step_name(step)}({', '.join(names[v] for v in step.inputs)})")
            lines += [f"    joined by {', '.join(step.joined_by)}"] if step.joined_by else []
            lines += [f"    apart from {names[v]}: {why}" for v, why in step.apart_from.items()]
            lines += [f"    {q}" for q in step.equations]
        elif isinstance(step, RegionStep):
            outputs = ", ".join(f"{names[v]}: {spelled_type(v.type, sizes)}" for v in step.node.outputs)
            lines.append(f"{outputs} = {step.node.op.full_name} {{")
            for body in step.bodies:
                lines += [f"  {body.function.name}:", *(f"    {line}" for line in spell_schedule(body).splitlines())]
            lines.append("}")
        elif isinstance(step, TableStep):
            outputs = ", ".join(f"{names[v]}: {spelled_type(v.type, sizes)}" for v in step.node.outputs)
            inputs = ", ".join(names[v] for v in step.node.inputs if v is not None)
            lines.append(f"{outputs} = {step.node.op.full_name}({inputs})")
        else:
            lines.append(f"{names[step.output]}: {spelled_type(step.output.type, sizes)} = view {names[step.input]}")
    return "\n".join(lines)
