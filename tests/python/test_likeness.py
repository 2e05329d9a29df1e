# SPDX-License-Identifier: Apache-2.0
"""kedge.Likeness: which model rows are of."""
import kedge
import numpy as np
import pytest

WIDTH = 96


def views() -> tuple[np.ndarray, ...]:
    """Rows of two made-up models, in which other directions vary most."""
    rng = np.random.default_rng(2)
    spread = np.exp(-np.arange(WIDTH) / 24)
    return tuple(rng.normal(size=(1500, WIDTH)) * spread @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
                 + .5 * rng.normal(size=WIDTH) for _ in range(2))


def test_rows_and_moments_know_the_same() -> None:
    own, other = views()
    known = kedge.Likeness(own[:1000])
    assert known.can_tell and known.dim == WIDTH
    assert known.length == pytest.approx(np.sqrt((own[:1000] ** 2).sum(axis=1).mean()))
    near, far = known.distances(own[1000:]), known.distances(other)
    assert (near < known.LIKE).mean() > .95 and (far > known.UNLIKE).mean() > .9
    summed = kedge.Likeness(kedge.Moments({"a": own[:500]}) + kedge.Moments({"a": own[500:1000]}))
    np.testing.assert_allclose(summed.distances(other), far, rtol=1e-4)


def test_the_formula() -> None:
    """Mahalanobis' distance at the length of the known rows, on a scale from a known row to a row of any direction."""
    own, other = views()
    covariance = pytest.importorskip("sklearn.covariance").LedoitWolf().fit(own)
    inverse, mean = np.linalg.inv(covariance.covariance_), own.mean(axis=0)
    length = np.sqrt((own ** 2).sum(axis=1).mean())
    scaled = other * (length / np.linalg.norm(other, axis=1, keepdims=True)) - mean
    squares = np.einsum("ij,jk,ik->i", scaled, inverse, scaled) / WIDTH
    chance = length ** 2 * np.trace(inverse) / WIDTH ** 2 + mean @ inverse @ mean / WIDTH
    np.testing.assert_allclose(kedge.Likeness(own).distances(other), (squares - 1) / (chance - 1), rtol=1e-3)


def test_bad_input() -> None:
    own, _ = views()
    for known in (np.zeros((0, 3)), np.ones((5, 3)), "missing.npy", kedge.Moments(),
                  kedge.Moments({"a": own, "b": own[:, :3]})):
        with pytest.raises((ValueError, OSError)):
            kedge.Likeness(known)
    with pytest.raises(ValueError, match=str(WIDTH)):
        kedge.Likeness(own).distances(own[:, :5])
