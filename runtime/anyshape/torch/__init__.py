"""The ops as operators of PyTorch: `from anyshape.torch import ops`, then `ops.softmax(x, axis=-1)` on tensors.

In: the ops that exist (`graph.registry`). Out: for each an operator `anyshape::name` of `torch.library`: schema (`schema`), kernel
(`kernel`), fake kernel (`fake`), gradient and batching rule (`operators`), all made of the op's declaration. Packages of ops that
`anyshape_gen --target torch` writes are registered alike (`registration`). Torch is imported when `ops` or such a package is.
"""
