"""Certificates of exported ops, judged: of the first example of an op, on symbols, or on numbers where symbols are refused.

In: an op. Out: a judgement of its certificate; an empty one for an op that is not exported. Nothing is linked: a certificate is written
before that.
"""

from __future__ import annotations

from anyshape.errors import UnsupportedError
from anyshape.graph.function import Function
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import certificate_of, export_target
from anyshape.vm.export.certificate_text import certificate_json
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.laws.exported_ops import function_on_numbers, function_on_symbols
from anyshape_testing.proofs.certificates import CertificateJudgement, judge_certificate
from anyshape_testing.proofs.judge import LIMIT


def judge_exported(op: str, limit: int = LIMIT) -> CertificateJudgement:
    call = call_of(op, next(e for e in PROPERTIES[op].examples if e.error is None))
    for make in (function_on_symbols, function_on_numbers):
        try:
            return judge_certificate(certificate_text_of(make(call)), limit)
        except UnsupportedError:
            continue
    return CertificateJudgement()


def certificate_text_of(f: Function, target: str | None = None) -> str:
    """The certificate that `export` writes for a function. Raises what `export` raises."""
    certificate = certificate_of(f, "model", export_target(target), make_options({"dims": {}}))
    return certificate_json([certificate], "")
