"""Small models of many kinds as torch exports them, with dynamic dims: structures here, weights from seeds, arguments from `arguments`.

`export` makes the structures again (it needs torch and transformers); nothing else does.
"""
