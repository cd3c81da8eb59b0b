"""Checks lists of execution providers as onnxruntime's sessions take them: the CPU is the only one here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, error
from anyshape.onnxruntime.log import ignored
from anyshape.public import short

PROVIDER = "CPUExecutionProvider"


def check_providers(providers: Sequence[Any] | None, options: Sequence[Any] | None) -> None:
    """Raises InvalidArgument for a list of providers without a CPU one; logs the others once, and options of all."""
    if isinstance(providers, str | bytes):
        raise error(InvalidArgument, f"providers must be a list of names or of (name, options), got {short(providers)}")
    names = []
    for p in providers or ():
        is_pair = isinstance(p, tuple) and len(p) == 2
        if not isinstance(p[0] if is_pair else p, str):
            raise error(InvalidArgument, f"a provider is a name or a tuple of a name and options, got {short(p)}")
        names.append(p[0] if is_pair else p)
        if is_pair and p[1]:
            ignored(f"options of {names[-1]}", "the CPU provider has none")
    if options is not None and len(options) != len(names):
        raise error(InvalidArgument, "'providers' and 'provider_options' should be the same length if both are given.")
    if any(options or ()):
        ignored("provider_options", "the CPU provider has none")
    if names and PROVIDER not in names:
        raise error(
            InvalidArgument, f"anyshape runs on the CPU, and {', '.join(names)} has no {PROVIDER}; add it to providers"
        )
    for name in names:
        if name != PROVIDER:
            ignored(f"the provider {name}", "anyshape runs on the CPU")
