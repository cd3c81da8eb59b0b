"""`anyshape serve MODEL…`: serves models by the Open Inference Protocol until SIGTERM."""

from __future__ import annotations

import argparse
import sys

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.progress import progress
from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.serving.model import CompiledModel, model_names
from anyshape.serving.options import ServeOptions
from anyshape.vm import compile


def serve_command(args: argparse.Namespace) -> Answer:
    """Compiles or loads the models, and serves them. Raises UnsupportedError without the packages of the extra."""
    try:
        from anyshape.serving.server import serve
    except ImportError as e:
        raise UnsupportedError(f"anyshape serve needs the extra [serve]: pip install 'anyshape[serve]' ({e})") from None
    files, dims = model_names([args.model, *args.models]), arguments.dims(args.dim)
    options = ServeOptions(
        host=args.host,
        port=None if args.no_http else args.port,
        grpc_port=None if args.no_grpc else args.grpc_port,
        max_batch=args.max_batch,
        max_delay=args.max_delay_ms / 1e3,
        max_body=args.max_body,
        max_pending=max(args.max_pending, args.max_body),
        max_queue=args.max_queue,
        timeout=args.timeout,
        drain=args.drain,
    )
    if options.port is None and options.grpc_port is None:
        raise ArgumentError("--no-http and --no-grpc leave nothing to serve")
    models = []
    for name, path in files.items():
        with progress(f"compiling {path}"):
            models.append(CompiledModel(name, compile(path, dims, threads=args.threads, repair=args.repair or None)))
    serve(models, options, _say)
    return Answer(text="", data={"models": list(files)})


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
