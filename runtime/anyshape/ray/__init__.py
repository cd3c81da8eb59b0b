"""`anyshape.ray.predict`: a model on each row of a dataset of Ray Data, or of a table in this process.

In: a dataset or table, a model, and which column is which input. Out: the same rows with columns of results. How a model runs on a table is
`anyshape.tables`; here is what several processes need. The plan is made and checked in the caller's, and sent to actors, each of which maps
the saved model.

    model_file                a saved model on each node: where it is, or copied there once
    actors                    what runs in a worker
    prediction                `predict`
    cluster                   a table in a file through a cluster, for `anyshape batch`

The package ray is imported when a dataset of it is passed.
"""

from anyshape.ray.prediction import predict

__all__ = ["predict"]
