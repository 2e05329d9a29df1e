# SPDX-License-Identifier: Apache-2.0
"""What is wrong gets the right exception and a sentence, and never a crash."""
import numpy as np
import pytest

import kedge

GOOD = np.random.default_rng(0).normal(size=(50, 6))


def with_value(value, row=17):
    rows = GOOD.copy()
    rows[row, 2] = value
    return rows


FITS = {
    "NaN": (dict(a=with_value(np.nan)), {}, ValueError, "row 17.*NaN or infinite"),
    "infinity": (dict(a=GOOD, b=with_value(np.inf, 3)), {}, ValueError, "space 'b'.*row 3"),
    "too large for float32": (dict(a=with_value(1e300)), {}, ValueError, "too large"),
    "other rows": (dict(a=GOOD, b=GOOD[:40]), {}, ValueError, "50.*40"),
    "no rows": (dict(a=GOOD[:0]), {}, ValueError, "space 'a'"),
    "no values": (dict(a=GOOD[:, :0]), {}, ValueError, "space 'a'"),
    "no spaces": ({}, {}, ValueError, "space"),
    "one value": (dict(a=np.float32(3)), {}, ValueError, "space 'a'"),
    "a vector": (dict(a=GOOD[0]), {}, ValueError, "space 'a'"),
    "three dimensions": (dict(a=GOOD[None]), {}, ValueError, "space 'a'"),
    "objects": (dict(a=np.full((50, 6), object())), {}, ValueError, "space 'a'"),
    "words": (dict(a=[["x", "y"]]), {}, ValueError, "space 'a'"),
    "complex": (dict(a=GOOD.astype(complex)), {}, ValueError, "space 'a'"),
    "ragged": (dict(a=[[1.0, 2.0], [3.0]]), {}, ValueError, "space 'a'"),
    "constant": (dict(a=np.ones((50, 3))), {}, ValueError, "same"),
    "no file": (dict(a="missing.npy"), {}, OSError, "missing.npy"),
    "wrong file": (dict(a="missing.xyz"), {}, OSError, "npy"),
    "a list": ([GOOD], {}, TypeError, "map names to embeddings"),
    "a number as name": ({3: GOOD}, {}, TypeError, "name must be a str"),
    "a name no bundle can hold": ({"a=b": GOOD}, {}, ValueError, "a=b"),
    "too many anchors": (dict(a=GOOD), dict(anchors=51), ValueError, "51 anchors"),
    "too much support": (dict(a=GOOD), dict(support=51), ValueError, "51"),
    "negative anchors": (dict(a=GOOD), dict(anchors=-1), ValueError, "anchors is -1"),
    "anchors that are no number": (dict(a=GOOD), dict(anchors="many"), TypeError, "anchors is 'many'"),
    "a huge number": (dict(a=GOOD), dict(anchors=2**70), ValueError, "anchors"),
    "a float where a count is": (dict(a=GOOD), dict(epochs=1.5), TypeError, "epochs is 1.5"),
    "truth where a count is": (dict(a=GOOD), dict(epochs=True), TypeError, "epochs is True"),
    "text where a number is": (dict(a=GOOD), dict(lr="fast"), TypeError, "lr is 'fast'"),
    "unknown method": (dict(a=GOOD), dict(method="magic"), ValueError, "unknown method 'magic'.*param"),
    "a method that is no text": (dict(a=GOOD), dict(method=3), TypeError, "method is 3"),
    "unknown option": (dict(a=GOOD), dict(ancors=3), TypeError, "did you mean 'anchors'"),
    "shrinkage out of range": (dict(a=GOOD), dict(shrinkage=1.5), ValueError, "shrinkage is 1.5"),
    "repeated ids": (dict(a=GOOD), dict(support_ids=[1, 1, 2], anchors=2), ValueError, "1"),
    "ids out of range": (dict(a=GOOD), dict(support_ids=[1, 50], anchors=2), ValueError, "50"),
    "no ids": (dict(a=GOOD), dict(support_ids=[], anchors=2), ValueError, "support_ids"),
    "ids that are no numbers": (dict(a=GOOD), dict(support_ids=[0.5], anchors=1), ValueError, "support_ids"),
    "rows outside": (dict(a=GOOD), dict(rows=slice(0, 60), anchors=2), ValueError, "60"),
    "rows backwards": (dict(a=GOOD), dict(rows=slice(9, 3), anchors=2), ValueError, "rows"),
    "rows with steps": (dict(a=GOOD), dict(rows=slice(0, 9, 2), anchors=2), ValueError, "rows"),
    "no GPU": (dict(a=GOOD), dict(device="cuda", anchors=2), OSError, "CUDA|GPU|driver"),
    "nothing to resume": (dict(a=GOOD), dict(resume=True, anchors=2), ValueError, "resume|checkpoint"),
}


@pytest.mark.parametrize("case", FITS)
def test_fit_refuses(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spaces, options, kind, says = FITS[case]
    with pytest.raises(kind, match=says):
        kedge.fit(spaces, **{"anchors": 3, **options})


TRANSFORMS = {
    "NaN": (with_value(np.nan), "row 17"),
    "infinity in float32": (with_value(-np.inf, 49).astype(np.float32), "row 49"),
    "too large": (with_value(1e38, 4).astype(np.float32) * 3, "row 4 .*leaves float32"),
    "other width": (GOOD[:, :5], "6 values, got 5"),
    "a million columns": (np.zeros((1, 1_000_000), np.float32), "got 1000000"),
    "no columns": (GOOD[:, :0], "got 0"),
    "a vector": (GOOD[0], "X"),
    "objects": (np.full((50, 6), {}), "X"),
    "words": (np.array([["a"] * 6]), "X"),
}


@pytest.mark.parametrize("case", TRANSFORMS)
def test_transform_refuses(case):
    rr = kedge.fit({"a": GOOD}, method="random", anchors=3)["a"]
    rows, says = TRANSFORMS[case]
    with pytest.raises(ValueError, match=says):
        rr.transform(rows)
    assert np.isfinite(rr.transform(GOOD)).all()


def test_transform_refuses_what_no_matrix_could_be():
    rr = kedge.fit({"a": GOOD}, method="random", anchors=3)["a"]
    for nothing in (None, object(), kedge.fit):
        with pytest.raises(TypeError, match="X"):
            rr.transform(nothing)


def test_a_million_columns_are_too_many_to_whiten():
    with pytest.raises((MemoryError, ValueError), match="memory|values"):
        kedge.fit({"wide": np.random.default_rng(0).normal(size=(4, 1_000_000))}, method="random", anchors=2)


def test_bundles_refuse(bundle, tmp_path):
    with pytest.raises(ValueError, match="'z'.*vit, rex"):
        bundle["z"]
    with pytest.raises(ValueError, match="'z'"):
        bundle.translator("vit", "z")
    with pytest.raises(ValueError, match="50|rows"):
        bundle.attach("short", GOOD[:5])
    with pytest.raises(OSError, match="missing"):
        kedge.load(tmp_path / "missing.kedge")
    (tmp_path / "bad.kedge").write_bytes(b"\x10\0\0\0\0\0\0\0not a bundle at all")
    with pytest.raises(OSError, match="bad.kedge"):
        kedge.load(tmp_path / "bad.kedge")
    with pytest.raises(OSError, match="no such folder|No such file|cannot"):
        bundle.save(tmp_path / "no such folder" / "x.kedge")
    with pytest.raises(TypeError):
        bundle.save(None)


def test_compare_refuses():
    for a, b, says in ((GOOD, GOOD[:40], "50"), (GOOD, GOOD[:, :3], "6"), (GOOD[:0], GOOD[:0], "A|empty|rows"),
                       (with_value(np.nan), GOOD, "row 17")):
        with pytest.raises(ValueError, match=says):
            kedge.compare(a, b)
    with pytest.raises(ValueError, match="recall_at"):
        kedge.compare(GOOD, GOOD, recall_at=[0])


def test_stitch_refuses():
    spaces = {"a": GOOD, "b": GOOD * 2}
    split = dict(train=slice(40), test=slice(40, 50), anchors=3, methods=["random-wip"])
    for options, says in ((dict(labels=[1, 2]), "2 labels"), (dict(labels=["x"] * 50), "labels"),
                          (dict(methods=["magic"]), "magic"), (dict(test=slice(30, 50)), "train|test"),
                          (dict(hold_out=["z"]), "'z'"), (dict(report=True), "out"), (dict(keep_bundles=True), "out"),
                          (dict(labels=np.arange(50) % 2, head="ridge"), "ridge")):
        with pytest.raises(ValueError, match=says):
            kedge.stitch(spaces, **{**split, **options})
    with pytest.raises(TypeError, match="train"):
        kedge.stitch(spaces, test=slice(3))
