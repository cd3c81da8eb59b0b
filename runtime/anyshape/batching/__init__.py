"""Which dim of a model's inputs requests can be joined along: a batch dim, of which every row of a result depends on the same row alone.

In: a `Function`. Out: a `BatchDim`, with the axis of every input and output that it is; or `Unbatched`, which says for every dim why not.

Nothing is known of ops by their names. The equations of every call are read: a position along the dim may select the same row of an operand
and do nothing else, a sum may not go over the dim, and its size may not be computed with. `batch_dim` holds for equal sizes of all other
dims, and for equal values of inputs that do not have the dim. `joining` makes one call of requests, and parts its results.
"""

from anyshape.batching.analysis import BatchDim, RowAxis, Unbatched, batch_dim

__all__ = ["BatchDim", "RowAxis", "Unbatched", "batch_dim"]
