# SPDX-License-Identifier: Apache-2.0
"""Maps as ONNX models, run by another program than kedge."""
import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import Kedge

SIMILARITIES = ["wip", "inner", "cosine", "euclidean", "angular", "manhattan"]


@pytest.fixture(params=SIMILARITIES)
def exported(request: pytest.FixtureRequest, kedge: Kedge, spaces: list[str]) -> Kedge:
    kedge.ok("fit", *spaces, "--anchors", 10, "--support", 60, "--method", "fps", "--similarity", request.param,
             "-o", "x.kedge")
    kedge.ok("export", "x.kedge", "--space", "a", "-o", "a.onnx")
    return kedge


def run_model(kedge: Kedge, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(kedge.folder / "a.onnx", providers=["CPUExecutionProvider"])
    rr: np.ndarray = session.run(None, {"x": x})[0]
    return rr


def run_kedge(kedge: Kedge, x: np.ndarray) -> np.ndarray:
    np.save(kedge.folder / "x.npy", x)
    kedge.ok("transform", "x.kedge", "--space", "a", "-i", "x.npy", "-o", "rr.npy")
    rr: np.ndarray = np.load(kedge.folder / "rr.npy")
    return rr


def assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.dtype == wanted.dtype == np.float32 and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max(initial=0))


def test_the_model_computes_what_transform_computes(exported: Kedge) -> None:
    x = np.load(exported.folder / "a.npy")
    assert_same(run_model(exported, x), run_kedge(exported, x))


@pytest.mark.parametrize("rows", [1, 7])
def test_any_number_of_rows_goes_in(exported: Kedge, rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, 8)).astype(np.float32)
    assert_same(run_model(exported, x), run_kedge(exported, x))


def test_no_rows_go_in_and_none_come_out(exported: Kedge) -> None:
    assert run_model(exported, np.empty((0, 8), np.float32)).shape == (0, 10)
    onnx = pytest.importorskip("onnx")
    for node in onnx.load(exported.folder / "a.onnx").graph.node:
        # With it, onnxruntime divides by the number of rows; only an x86 processor ends the process for that.
        assert "scan_output_axes" not in {attribute.name for attribute in node.attribute}


def test_a_row_of_zeros_is_as_transform_has_it(exported: Kedge) -> None:
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    x[1] = 0
    wanted = run_kedge(exported, x)
    assert np.isfinite(wanted).all()
    assert_same(run_model(exported, x), wanted)


def test_it_is_a_valid_model_that_says_where_it_came_from(exported: Kedge, request: pytest.FixtureRequest) -> None:
    model = onnx.load(exported.folder / "a.onnx")
    onnx.checker.check_model(model, full_check=True)
    version = exported.ok("--version").stdout.split()[-1]
    assert (model.ir_version, model.producer_name, model.producer_version) == (8, "kedge", version)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
    assert {entry.key: entry.value for entry in model.metadata_props} == {
        "format": "kedge map", "kedge_version": version, "space": "a",
        "similarity": request.node.callspec.params["exported"]}
    shapes = {}
    for value in [*model.graph.input, *model.graph.output]:
        assert value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        shapes[value.name] = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
    assert shapes == {"x": ["rows", 8], "rr": ["rows", 10]}


@pytest.mark.parametrize("exported", ["cosine", "angular"], indirect=True)
@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e30])
def test_angles_leave_no_range_that_the_embeddings_do_not_leave(exported: Kedge, scale: float) -> None:
    x = (np.random.default_rng(1).normal(size=(5, 8)) * scale).astype(np.float32)
    assert np.abs(x).max() > 0
    assert_same(run_model(exported, x), run_kedge(exported, x))


@pytest.mark.parametrize("exported", ["euclidean"], indirect=True)
def test_euclidean_keeps_its_digits_next_to_an_anchor(exported: Kedge) -> None:
    """fps takes rows of the support as anchors, so that some rows are at distance 0 from one."""
    x = np.load(exported.folder / "a.npy")
    initial = {tensor.name: onnx.numpy_helper.to_array(tensor)
               for tensor in onnx.load(exported.folder / "a.onnx").graph.initializer}
    anchors = initial["weight"].astype(np.float64)
    for step in (0, 1e-3, 1e-2):
        near = (anchors + initial["mean"] + step).astype(np.float32)
        exact = np.linalg.norm((near - initial["mean"]).astype(np.float64)[:, None] - anchors, axis=2)
        np.testing.assert_allclose(run_model(exported, near), exact, rtol=1e-5, atol=1e-7 * np.abs(x).max())


@pytest.mark.parametrize("exported", ["angular"], indirect=True)
def test_angles_keep_their_digits_next_to_an_anchor(exported: Kedge) -> None:
    model = onnx.load(exported.folder / "a.onnx")
    anchors, = (onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name == "weight")
    for sign in (1, -1):
        near = (sign * 3 * (anchors + 1e-4 * np.roll(anchors, 1, axis=1))).astype(np.float32)
        assert_same(run_model(exported, near), run_kedge(exported, near))
        found = run_model(exported, (sign * anchors).astype(np.float32)).diagonal()
        np.testing.assert_allclose(found, (1 + sign) / 2, atol=1e-6)


@pytest.mark.parametrize("attach", ["mixture", "ridge"])
def test_a_map_of_consensus_is_a_model_too(kedge: Kedge, spaces: list[str], attach: str) -> None:
    kedge.ok("fit", *spaces, "--anchors", 4, "--support", 60, "--method", "consensus", "--attach", attach,
             "-o", "x.kedge")
    kedge.ok("export", "x.kedge", "--space", "a", "-o", "a.onnx")
    x = np.load(kedge.folder / "a.npy")
    assert_same(run_model(kedge, x), run_kedge(kedge, x))


def test_the_format_is_that_of_the_ending_unless_given(kedge: Kedge, bundle: str) -> None:
    for name, kind in (("m.onnx", "onnx"), ("m.safetensors", "safetensors"), ("m.npy", "npy")):
        assert kedge.json("export", bundle, "--space", "a", "-o", name)["format"] == kind
    assert kedge.json("export", bundle, "--space", "a", "--format", "onnx", "-o", "model") == {
        "command": "export", "space": "a", "format": "onnx", "files": ["model"]}
    assert (kedge.folder / "model").read_bytes() == (kedge.folder / "m.onnx").read_bytes()


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(kedge: Kedge, bundle: str) -> None:
    kedge.ok("export", bundle, "--space", "a", "-o", "old.onnx")
    for name in ("m", "m.onnxx", "onnx", "m.pt"):
        kedge.refused(2, "export", bundle, "--space", "a", "-o", name, says=["cannot tell", "--format", "onnx"])
    kedge.refused(2, "export", bundle, "--space", "a", "--format", "torch", "-o", "m.onnx", says="--format")
    kedge.refused(2, "export", bundle, "--space", "c", "-o", "m.onnx", says=["no space 'c'", "a, b"])
    kedge.refused(2, "export", bundle, "--space", "a", "--format", "onnx", "-o", bundle, says="is an input")
    kedge.refused(1, "export", bundle, "--space", "a", "-o", "no/m.onnx", says=["no/m.onnx", "create the folder first"])
    kedge.refused(1, "export", bundle, "--space", "a", "--format", "onnx", "-o", "/dev/full",
                  says=["/dev/full", "No space left"])
    (kedge.folder / "folder.onnx").mkdir()
    kedge.refused(1, "export", bundle, "--space", "a", "-o", "folder.onnx", says=["folder.onnx", "directory"])
