"""Saved and loaded equals fresh: values, errors, variants; other code and other processors; files shared by processes."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import ADD, DOUBLE, DYN_SUM, FILL, FLATTEN, PICK, PRODUCT, RESHAPE, SHAPE_OF, call

import anyshape
from anyshape.errors import AnyshapeError, ArgumentError, SavedFileError, ShapeError
from anyshape.lower import host_target
from anyshape.vm import compile
from anyshape.vm.executable.saved import container, load, loading, save
from tests.resident import HANGS

Arrays = list[np.ndarray[Any, Any]]
rng = np.random.default_rng(0)


def network() -> anyshape.Function:
    """Packed constants, a plain one, shape arithmetic and symbolic dims."""
    x = anyshape.input("x", "f32[n, 24]")
    weight = anyshape.constant(rng.standard_normal((24, 40)).astype(np.float32), "weight")
    bias = anyshape.constant(rng.standard_normal(40).astype(np.float32))
    h = call(ADD, call(PRODUCT, call(DOUBLE, x), weight), bias)
    return anyshape.function([x], {"h": h, "flat": call(FLATTEN, h), "dims": call(SHAPE_OF, h), "bias": bias})


def dynamic() -> anyshape.Function:
    x, s = anyshape.input("x", "f32[n, m]"), anyshape.input("s", "i64[2]")
    return anyshape.function([x, s], call(DOUBLE, call(RESHAPE, x, s, source="Reshape 'a: b, %c'")))


def counted() -> anyshape.Function:
    x, t, i = anyshape.input("x", "f32[]"), anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[2]")
    return anyshape.function([x, t, i], call(FILL, x, call(PICK, t, i)))


def ranked_late() -> anyshape.Function:
    x, axes = anyshape.input("x", "f32[n, m, 2]"), anyshape.input("axes", "i64[?]")
    return anyshape.function([x, axes], call(DOUBLE, call(DYN_SUM, call(DOUBLE, x), axes)))


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


CASES: dict[str, tuple[Callable[[], anyshape.Function], list[Arrays]]] = {
    "network": (network, [[f32(n, 24)] for n in (1, 5, 0, 33)]),
    "dynamic": (dynamic, [[f32(2, 6), np.array([3, 4])], [f32(0, 3), np.array([5, 0])], [f32(4, 1), np.array([2, 2])]]),
    "counted": (counted, [[np.float32(2), np.array([7, 30, 20]), np.array([1, -1])]]),
    "ranked_late": (ranked_late, [[f32(3, 4, 2), np.array(a)] for a in ([0], [1, 2], [0, 1, 2])]),
}


def results(exe: anyshape.Executable, arguments: Arrays) -> Arrays:
    return exe.run(dict(zip(exe.input_names, arguments, strict=True)))


def saved(path: Path, make: Callable[[], anyshape.Function], **options: Any) -> anyshape.Executable:
    exe = compile(make(), **{"kernels": "native", **options})
    exe.save(path)
    return exe


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"kernels": "interpret"}], ids=["native", "unfused", "slow"])
def test_loaded_equals_fresh(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    make, calls = CASES[name]
    fresh = saved(tmp_path / "m", make, **options)
    again = load(tmp_path / "m", verify=True)
    assert (again.input_names, again.output_names) == (fresh.input_names, fresh.output_names)
    assert [(t.dtype, t.rank) for t in again.output_types] == [(t.dtype, t.rank) for t in fresh.output_types]
    for arguments in calls:
        for got, expected in zip(results(again, arguments), results(fresh, arguments), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_nothing_is_compiled_until_a_dim_is_empty(tmp_path: Path) -> None:
    saved(tmp_path / "m", network)
    again = load(tmp_path / "m")
    again(f32(3, 24))
    assert again.compiled_after_first_call == 0
    again(f32(0, 24))
    assert again.compiled_after_first_call == 1
    again.save(tmp_path / "both")
    both = load(tmp_path / "both")
    assert len(both.plan.programs) == 2
    both(f32(0, 24))
    assert both.compiled_after_first_call == 0


def test_errors_are_the_same(tmp_path: Path) -> None:
    fresh = saved(tmp_path / "m", dynamic)
    again = load(tmp_path / "m")
    for arguments in ([f32(2, 6), np.array([5, 4])], [f32(2), np.array([1, 2])], [f32(2, 6), np.array([3])]):
        with pytest.raises(AnyshapeError) as raised:
            results(fresh, arguments)
        with pytest.raises(type(raised.value)) as got:
            results(again, arguments)
        assert str(got.value) == str(raised.value)
    with pytest.raises(ShapeError, match="Reshape 'a: b, %c'"):
        results(again, [f32(2, 6), np.array([5, 4])])


def test_what_the_caller_said_of_dims_stays(tmp_path: Path) -> None:
    saved(tmp_path / "m", network, dims={"n": (2, 8)})
    with pytest.raises(ShapeError, match="at most 8"):
        load(tmp_path / "m")(f32(9, 24))


def test_the_function_comes_back(tmp_path: Path) -> None:
    f = dynamic()
    compile(f, kernels="native").save(tmp_path / "m")
    back = load(tmp_path / "m").function
    assert [n.source for n in back.nodes] == [n.source for n in f.nodes]
    assert str(back).splitlines()[0] == str(f).splitlines()[0]


def test_constants_are_mapped(tmp_path: Path) -> None:
    saved(tmp_path / "m", network)
    for a in load(tmp_path / "m").plan.programs[0].constants:
        assert not a.flags.writeable and not a.flags.owndata
        assert a.ctypes.data % container.ALIGNMENT == 0


def test_other_code_is_compiled_again_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = saved(tmp_path / "m", network)
    monkeypatch.setattr(loading, "code_version", lambda package: "other")
    again = load(tmp_path / "m")
    assert "other code of anyshape" in again.report.rebuilt and "other code of anyshape" in str(again.report)
    for n in (0, 7):
        for got, expected in zip(results(again, [f32(n, 24)]), results(fresh, [f32(n, 24)]), strict=True):
            np.testing.assert_array_equal(got, expected)
    with pytest.raises(SavedFileError, match=r"other code.*rebuild=True"):
        load(tmp_path / "m", rebuild=False)


def test_a_processor_without_the_matrix_tiles_of_a_file(tmp_path: Path) -> None:
    """Refused, or compiled again; a file without tiles is loaded where there are tiles, as a file for less."""
    if host_target().limited("amx").matrix_tiles is None:
        pytest.skip("words are packed for tiles by AVX512-BF16 and AVX512-VNNI")
    saved(tmp_path / "tiled", network, target="amx", precision="bf16")
    tiled = load(tmp_path / "tiled", rebuild=False)
    altered(
        tmp_path / "tiled",
        tmp_path / "elsewhere",
        lambda r: r["target"].update(matrix_tiles={"pairs": True, "dots": True}),
    )
    with pytest.raises(SavedFileError, match="another processor"):
        load(tmp_path / "elsewhere", rebuild=False)
    again = load(tmp_path / "elsewhere")
    assert "another processor" in again.report.rebuilt
    np.testing.assert_array_equal(again(f32(40, 24))[0], tiled(f32(40, 24))[0])
    saved(tmp_path / "plain", network, target="avx512", precision="bf16")
    assert load(tmp_path / "plain", rebuild=False).options.target == "avx512"


def test_another_processor(tmp_path: Path) -> None:
    """A file for less of this machine stays so; one for another machine is compiled again."""
    saved(tmp_path / "less", network, target="sse")
    assert load(tmp_path / "less", rebuild=False).options.target == "sse"
    altered(tmp_path / "less", tmp_path / "foreign", lambda r: r["target"].update(cpu="elsewhere"))
    with pytest.raises(SavedFileError, match=r"another processor \(elsewhere\)"):
        load(tmp_path / "foreign", rebuild=False)
    again = load(tmp_path / "foreign")
    assert "another processor" in again.report.rebuilt
    np.testing.assert_allclose(again(f32(3, 24))[0], load(tmp_path / "less")(f32(3, 24))[0], rtol=1e-5, atol=1e-5)


def altered(path: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The file with a changed record, and checksums that fit it."""
    data = path.read_bytes()
    size, length = container.HEADER.unpack_from(data)[2:4]
    record = json.loads(data[container.HEADER.size : container.HEADER.size + length])
    change(record)
    text = json.dumps(record, separators=(",", ":")).encode()
    start = container._aligned(container.HEADER.size + length, container.PAGE)
    new_start = container._aligned(container.HEADER.size + len(text), container.PAGE)
    body = container.header(size - start + new_start, text) + text
    to.write_bytes(body.ljust(new_start, b"\0") + data[start:])


@pytest.mark.parametrize("rebuild", [False, True])
def test_records_of_another_structure_are_refused(tmp_path: Path, rebuild: bool) -> None:
    """Checksums that fit a record that `save` did not write."""
    saved(tmp_path / "m", network)
    data = (tmp_path / "m").read_bytes()
    length = container.HEADER.unpack_from(data)[3]
    record = json.loads(data[container.HEADER.size : container.HEADER.size + length])
    for key in set(record) - {"anyshape", "function", "report", "guarded"}:
        for other in ({}, [[]], None, 7):
            altered(tmp_path / "m", tmp_path / "other", lambda r: r.update({key: other}))  # noqa: B023, called at once
            try:
                again = load(tmp_path / "other", rebuild=rebuild)
            except AnyshapeError:
                continue
            assert again(f32(3, 24))[0].shape == (3, 40)


def test_an_op_that_is_gone_is_a_refusal(tmp_path: Path) -> None:
    saved(tmp_path / "m", network)

    def change(record: dict[str, Any]) -> None:
        record["target"]["cpu"] = "elsewhere"
        record["function"]["nodes"][0][0] = "gone"

    altered(tmp_path / "m", tmp_path / "gone", change)
    with pytest.raises(SavedFileError, match=r"there is no op gone.*compile the model again"):
        load(tmp_path / "gone")


def test_places_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    exe = compile(dynamic(), kernels="native")
    with pytest.raises(AnyshapeError, match="cannot be written"):
        exe.save(tmp_path / "no" / "m")
    with pytest.raises(SavedFileError, match="cannot be read"):
        load(tmp_path / "nothing")
    assert not list(tmp_path.iterdir()), "nothing half written stays"


def test_saving_over_a_loaded_file(tmp_path: Path) -> None:
    """The mapped file keeps its contents when another takes its name."""
    fresh = saved(tmp_path / "m", network)
    again = load(tmp_path / "m")
    saved(tmp_path / "m", dynamic)
    save(again, tmp_path / "m")
    x = f32(4, 24)
    np.testing.assert_array_equal(again(x)[0], fresh(x)[0])
    np.testing.assert_array_equal(load(tmp_path / "m")(x)[0], fresh(x)[0])


def _load_compiling_nothing(path: str, cache: str, out: Any) -> None:
    import os

    os.environ["ANYSHAPE_CACHE"] = cache
    host_target()
    known = set(Path(cache).glob("*"))
    load(path, rebuild=False)(f32(5, 24))
    out.put([p.name for p in Path(cache).glob("*") if p not in known])


def test_loading_on_a_new_machine_compiles_nothing(tmp_path: Path) -> None:
    """Nothing is compiled, not even what all models share, but for what is measured of a processor the first time, if it is."""
    saved(tmp_path / "m", network)
    context = multiprocessing.get_context("spawn")
    out: Any = context.Queue()
    worker = context.Process(target=_load_compiling_nothing, args=(str(tmp_path / "m"), str(tmp_path / "empty"), out))
    worker.start()
    assert out.get(timeout=HANGS) == []
    worker.join()


def _run_in_process(path: str) -> Any:
    return load(path).run({"x": f32(5, 24)})[0].sum()


def test_two_processes_map_one_file(tmp_path: Path) -> None:
    """Processes may take any time; one that dies is an error of the pool."""
    fresh = saved(tmp_path / "m", network)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        sums = list(pool.map(_run_in_process, [str(tmp_path / "m")] * 2))
    assert sums == [results(fresh, [f32(5, 24)])[0].sum()] * 2


def test_compiling_a_saved_model_loads_it(tmp_path: Path) -> None:
    saved(tmp_path / "m", network)
    assert "load" in compile(tmp_path / "m").report.phases
    with pytest.raises(ArgumentError, match="pass dims when you compile"):
        compile(tmp_path / "m", {"n": 3})


def test_names_and_attributes_of_any_kind_come_back(tmp_path: Path) -> None:
    """What the text form cannot spell: names with any character, NaN, two unknowns of one name."""
    x, y = anyshape.input("a: b, %c = d", "f32[n, ?]"), anyshape.input("\u2603\"'", "f32[?, n]")
    f = anyshape.function([x, y], {"out 1": call(DOUBLE, x), "": call(DOUBLE, y)})
    fresh = compile(f, kernels="native")
    fresh.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.input_names == fresh.input_names and again.output_names == fresh.output_names
    unknown = {t.shape[k] for t, k in zip(again.input_types, (1, 0)) if t.shape}
    assert len(unknown) == 2 and again.input_types[0].shape[0] is again.input_types[1].shape[1]
    np.testing.assert_array_equal(results(again, [f32(2, 3), f32(5, 2)])[1], results(fresh, [f32(2, 3), f32(5, 2)])[1])
