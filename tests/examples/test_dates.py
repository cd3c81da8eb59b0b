"""The date reader of examples/dates: its texts say what they are labelled with, and the committed model reads them."""

from __future__ import annotations

import importlib.util
import random
from datetime import date, timedelta
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "dates"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"dates_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


data = _load("data")


@pytest.fixture(scope="module")
def session() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(FOLDER / "dates.onnx"), providers=["CPUExecutionProvider"])


def test_model_is_small_and_both_dims_are_dynamic() -> None:
    path = FOLDER / "dates.onnx"
    assert path.stat().st_size < 2_000_000
    (ids,) = onnx.load(path).graph.input
    assert [dim.dim_param for dim in ids.type.tensor_type.shape.dim] == ["batch", "length"]


def test_reads_dates_it_was_not_trained_on(session: onnxruntime.InferenceSession) -> None:
    rng = random.Random(77)
    dates = [data.draw_date(rng, held=True) for _ in range(500)]
    answers = data.decode(*session.run(None, {"ids": data.encode([data.write(rng, when) for when in dates])}))
    right = sum(answer == when.isoformat() for answer, when in zip(answers, dates))
    assert right / len(dates) > 0.99


def test_padding_changes_no_answer(session: onnxruntime.InferenceSession) -> None:
    texts = ["the 3rd of March, 1987", "1999-01-02"]
    alone = session.run(None, {"ids": data.encode(texts)})
    padded = session.run(None, {"ids": data.encode(texts, data.MAX_LENGTH)})
    for a, b in zip(alone, padded):
        assert np.abs(a - b).max() < 1e-3
    assert data.decode(*padded) == ["1987-03-03", "1999-01-02"]


@pytest.mark.parametrize(("batch", "length"), data.SIZES)
def test_runs_at_every_listed_size(session: onnxruntime.InferenceSession, batch: int, length: int) -> None:
    day, month, year = session.run(None, {"ids": np.ones((batch, length), np.int64)})
    assert (day.shape, month.shape, year.shape) == ((batch, 31), (batch, 12), (batch, 4, 10))


def test_no_format_writes_two_dates_the_same() -> None:
    """Every format, its random choices fixed, tells apart dates that differ in a day, a month or a year."""
    days = [
        date(1987, 3, 3),
        date(1987, 3, 13),
        date(1987, 3, 30),
        date(1987, 5, 3),
        date(1978, 3, 3),
        date(2007, 3, 3),
    ]
    for kind, _ in data.FORMATS:
        for seed in range(30):
            assert len({kind(random.Random(seed), when) for when in days}) == len(days), (kind.__name__, seed)


def test_ordinals() -> None:
    ordinals = [data.suffixed(day) for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    assert ordinals == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th", "31st"]


def test_one_date_in_ten_is_held_out() -> None:
    days = [date(1950, 1, 1) + timedelta(days=n) for n in range(1000)]
    assert sum(map(data.held_out, days)) == 100


def test_encode_folds_case_pads_and_marks_unknown_characters() -> None:
    ids = data.encode(["Ab", "€"])
    assert ids.dtype == np.int64
    assert ids.tolist() == [[data.ID_OF["a"], data.ID_OF["b"]], [data.UNKNOWN, data.PAD]]
    assert data.encode([""]).shape == (1, 1)


def test_decode_inverts_targets() -> None:
    dates = [date(1900, 1, 1), date(2024, 2, 29), date(2099, 12, 31)]
    expected = data.targets(dates)
    one_hot = (np.eye(31)[expected[:, 0]], np.eye(12)[expected[:, 1]], np.eye(10)[expected[:, 2:]])
    assert data.decode(*one_hot) == [when.isoformat() for when in dates]
