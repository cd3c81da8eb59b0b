"""Every operator that ONNX declares has a mapping, a body, or a reason in the specs why it has neither, which is what a model is told."""

from __future__ import annotations

import onnx
import pytest

import anyshape
from anyshape.errors import UnsupportedError
from anyshape.frontends.onnx.functions import has_body
from anyshape.frontends.onnx.mappings import all_mappings, all_refusals, find_mapping
from tests.frontends.models import model, node, tensor


def named(schema: onnx.defs.OpSchema) -> str:
    return f"{schema.domain}:{schema.name}" if schema.domain else schema.name


def test_what_has_neither_mapping_nor_body_has_a_reason():
    def is_read(s: onnx.defs.OpSchema) -> bool:
        mapping = find_mapping(all_mappings(), s.domain, s.name, s.since_version)
        return bool(mapping) or has_body(s) or s.has_context_dependent_function

    declared = [s for s in onnx.defs.get_all_schemas_with_history() if not s.deprecated]
    contributed = {name for name in all_refusals() if name.startswith("com.microsoft")}
    assert {named(s) for s in declared if not is_read(s)} == set(all_refusals()) - contributed
    assert not set(all_refusals()) & set(all_mappings())


@pytest.mark.parametrize("operator", sorted(all_refusals()))
def test_a_refused_model_names_the_reason(operator):
    domain, _, op = operator.rpartition(":")
    nodes = [
        node(op, "x", "y", "it", domain=domain),
        node("Identity", "y", "z"),
    ]  # a ZipMap whose result is an output is taken
    proto = model(nodes, [tensor("x", ["n"])], "z", opset=26, domains=[domain] * bool(domain))
    with pytest.raises(UnsupportedError) as error:
        anyshape.compile(proto)
    assert f"{op} ({domain or 'ai.onnx'}, opset {1 if domain else 26}): no mapping: {all_refusals()[operator]}" in str(
        error.value
    )
    assert [e.op for e in error.value.entries] == [op]


def test_what_is_refused_of_other_domains_is_what_onnxruntime_declares():
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    declared = {f"{s.domain}:{s.name}" for s in get_all_operator_schema()}
    assert {name for name in all_refusals() if name.startswith("com.microsoft")} <= declared
