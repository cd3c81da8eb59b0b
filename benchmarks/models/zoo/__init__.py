"""Small models of many kinds as exporters write them, with dynamic dims: structures here, weights from seeds, arguments from `arguments`.

`export` (torch and transformers), `export_optimum`, `export_tensorflow` and `export_tables` (skl2onnx, onnxmltools) make the structures
again, each in an environment that has what it needs; nothing else imports these.
"""
