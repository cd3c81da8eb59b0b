"""A server of models: the Open Inference Protocol (KServe v2) over HTTP and gRPC, which joins requests without padding.

In: models and `ServeOptions`. Out: answers until SIGTERM, then those of what was accepted before. Bodies come from anybody: what is wrong
with one is a `RefusedRequest` with a status, and the server goes on.

    refusal, options          `RefusedRequest`; limits
    datatypes, tensors        names of dtypes in the protocol; arrays from JSON, from binary data, and back
    request                   one call of a model, whichever protocol it came by
    model                     what a server needs of a model
    queue                     requests of one model, and the thread that runs them
    metrics, service          counters; what both protocols do: limits, deadlines, health
    http_bodies, http         the JSON and binary bodies, and the routes (aiohttp)
    grpc_messages, grpc_calls the protobuf messages as a table, and the methods (grpcio)
    server                    start, signals, drain

Only `http`, `grpc_messages`, `grpc_calls`, `metrics` and `server` import the packages of the extra `[serve]`.
"""
