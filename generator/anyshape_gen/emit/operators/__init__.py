"""What operators of ONNX and of ATen mean, and ops as functions of ONNX.

In: the mappings of files and ops. Out: functions of nodes, and their tables.

dialects        what differs between ONNX and ATen
mappings        a function for each operator of a dialect and opset
mapping_terms   terms and conditions of mappings
mapping_tables  tables of these functions
onnx_frame      the dims and runs at which an op computes, as axes of a tensor of ONNX
onnx_nodes      nodes of a function of ONNX
onnx_functions  ops as functions of ONNX
"""
