"""The protobuf messages of the Open Inference Protocol, as a table of their fields.

In: the table. Out: message classes by name. They are made when this is imported, so that no generated file ties the package to one version
of protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

_PARAMETERS = "map InferParameter"
_FIELDS: Mapping[str, str] = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "bool live 1",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "bool ready 1",
    "ModelReadyRequest": "string name 1; string version 2",
    "ModelReadyResponse": "bool ready 1",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "string name 1; string version 2; repeated string extensions 3",
    "ModelMetadataRequest": "string name 1; string version 2",
    "TensorMetadata": f"string name 1; string datatype 2; repeated int64 shape 3; {_PARAMETERS} parameters 4",
    "ModelMetadataResponse": "string name 1; repeated string versions 2; string platform 3; repeated TensorMetadata inputs 4; "
    f"repeated TensorMetadata outputs 5; {_PARAMETERS} parameters 6",
    "InferParameter": "one bool bool_param 1; one int64 int64_param 2; one string string_param 3; one double double_param 4; "
    "one uint64 uint64_param 5",
    "InferTensorContents": "repeated bool bool_contents 1; repeated int32 int_contents 2; repeated int64 int64_contents 3; "
    "repeated uint32 uint_contents 4; repeated uint64 uint64_contents 5; repeated float fp32_contents 6; "
    "repeated double fp64_contents 7; repeated bytes bytes_contents 8",
    "InferInputTensor": f"string name 1; string datatype 2; repeated int64 shape 3; {_PARAMETERS} parameters 4; "
    "InferTensorContents contents 5",
    "InferRequestedOutputTensor": f"string name 1; {_PARAMETERS} parameters 2",
    "ModelInferRequest": f"string model_name 1; string model_version 2; string id 3; {_PARAMETERS} parameters 4; "
    "repeated InferInputTensor inputs 5; repeated InferRequestedOutputTensor outputs 6; repeated bytes raw_input_contents 7",
    "InferOutputTensor": f"string name 1; string datatype 2; repeated int64 shape 3; {_PARAMETERS} parameters 4; "
    "InferTensorContents contents 5",
    "ModelInferResponse": f"string model_name 1; string model_version 2; string id 3; {_PARAMETERS} parameters 4; "
    "repeated InferOutputTensor outputs 5; repeated bytes raw_output_contents 6",
}
"""The fields of each message: type, name and number; `one` marks the alternatives of a oneof, `map` a map from strings"""

METHODS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")
"""The methods of the service; the messages of each are its name with Request and Response"""


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="anyshape/open_inference.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field in filter(None, map(str.strip, fields.split(";"))):
            _add_field(message, field.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{n}")) for n in _FIELDS}


def _add_field(message: Any, words: list[str]) -> None:
    *marks, kind, name, number = words
    field = message.field.add(name=name, number=int(number), label=3 if {"repeated", "map"} & {*marks} else 1)
    if "one" in marks:
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    if "map" in marks:
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, ["string", "key", "1"])
        _add_field(entry, [kind, "value", "2"])
        field.type, field.type_name = 11, f".{PACKAGE}.{message.name}.{entry.name}"
    elif kind in _FIELDS:
        field.type, field.type_name = 11, f".{PACKAGE}.{kind}"
    else:
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")


MESSAGES = _messages()
