"""Indices that are remainders of a variable: those of whole turns become variables of their own, and others stay."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.equations.builder import Equations
from anyshape.lower.target import host_target
from tests.lower.groups import lowered  # noqa: F401
