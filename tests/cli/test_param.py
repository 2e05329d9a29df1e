# SPDX-License-Identifier: Apache-2.0
"""Learning anchors from the shell: history, checkpoints, interrupts, and what cannot be learned."""
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import Kedge

FIT = ("--method", "param", "--anchors", 10, "--support", 60, "--batch", 64, "-o", "y.kedge")


def test_param_is_the_method_of_the_paper(kedge: Kedge, spaces: list[str]) -> None:
    assert "param (the paper's method" in " ".join(kedge.ok("fit", "--help").stdout.split())
    summary = kedge.json("fit", *spaces, *FIT, "--epochs", 5)
    assert summary["method"] == "param" and summary["losses"]["total"] > 0
    info = kedge.json("inspect", "y.kedge")
    assert len(info["history"]) == 5 and info["param"]["epochs"] == 5 and info["param"]["learning_rate"] == 0.03
    assert list(kedge.snapshot()) and not (kedge.folder / "y.kedge.checkpoint").exists()


def test_history_is_a_csv_of_falling_losses(kedge: Kedge, spaces: list[str]) -> None:
    kedge.ok("fit", *spaces, *FIT, "--epochs", 40, "--batch", 200, "--history", "losses.csv")
    table = np.genfromtxt(kedge.folder / "losses.csv", delimiter=",", names=True)
    assert table.dtype.names == ("epoch", "total", "symnce", "coverage", "orthogonality", "length")
    assert list(table["epoch"]) == list(range(1, 41))
    assert table["total"][-1] < 0.95 * table["total"][0]
    weights = {"symnce": 0.70, "coverage": 11.3, "orthogonality": 0.27, "length": 1.2}
    np.testing.assert_allclose(table["total"], sum(w * table[n] for n, w in weights.items()), rtol=1e-5)


def test_one_space_learns_without_contrast(kedge: Kedge, spaces: list[str]) -> None:
    assert kedge.json("fit", *spaces[:2], *FIT, "--epochs", 3)["losses"]["symnce"] == 0
    assert kedge.json("fit", *spaces, *FIT, "--epochs", 3, "--weight-symnce", 0)["losses"]["symnce"] == 0
    assert kedge.json("fit", *spaces, *FIT, "--epochs", 3)["losses"]["symnce"] > 0


def test_an_interrupt_keeps_a_checkpoint_and_resume_ends_in_the_same_bits(kedge: Kedge, spaces: list[str]) -> None:
    more = ("--epochs", 4000)
    kedge.ok("fit", *spaces, *FIT[:-1], "whole.kedge", *more)
    command = [kedge.program, "fit", *map(str, (*spaces, *FIT, *more, "--checkpoint-every", 1))]
    process = subprocess.Popen(command, cwd=kedge.folder, stderr=subprocess.PIPE, text=True)
    while not (kedge.folder / "y.kedge.checkpoint").exists() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=600)[1]
    assert process.returncode == 130 and "--resume" in message and "y.kedge.checkpoint" in message, message
    assert not (kedge.folder / "y.kedge").exists()
    kedge.refused(2, "fit", *spaces, *FIT, *more, "--resume", "--lr", "0.02",
                  says="belongs to a different training run")
    kedge.ok("fit", *spaces, *FIT, *more, "--resume")
    assert (kedge.folder / "y.kedge").read_bytes() == (kedge.folder / "whole.kedge").read_bytes()
    assert not (kedge.folder / "y.kedge.checkpoint").exists()


def test_nothing_to_resume_says_so(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fit", *spaces, *FIT, "--resume", says=["nothing to resume", "y.kedge.checkpoint"])


@pytest.mark.parametrize("option", ["--epochs=20", "--lr=0.1", "--coverage-rows=all", "--resume", "--checkpoint=c",
                                    "--checkpoint-every=1", "--history=losses.csv"])
@pytest.mark.parametrize("more", [[], ["--method", "random"], ["--validate", "--space", "c=b.npy"]])
def test_what_only_param_knows_is_refused_elsewhere(kedge: Kedge, spaces: list[str], option: str,
                                                    more: list[str]) -> None:
    (kedge.folder / "y.kedge.checkpoint").write_text("what an earlier run may have left")
    name, method = option.split("=")[0].lstrip("-"), "random" if "random" in more else "consensus"
    kedge.refused(2, "fit", *spaces, "--anchors", 5, "-o", "y.kedge", option, *more,
                  says=[f"{name} belongs to the method param, but the method is {method}", "method param, or leave",
                        "out"])


@pytest.mark.parametrize("option, words", [("--batch=0", "batch is 0"), ("--lr=-1", "learning rate is -1"),
                                           ("--lr=nan", "learning rate is nan"),
                                           ("--temperature=0", "temperature is 0"),
                                           ("--tau-symnce=0.001", "0.025 or more"),
                                           ("--weight-length=-1", "weight-length is -1"),
                                           ("--coverage-rows=some", "--help"),
                                           ("--epochs=-3", "--help")])
def test_options_out_of_range(kedge: Kedge, spaces: list[str], option: str, words: str) -> None:
    kedge.refused(2, "fit", *spaces, *FIT, option, says=words)


def test_unusual_but_possible(kedge: Kedge, spaces: list[str]) -> None:
    for more in (["--batch", 1, "--epochs", 1], ["--anchors", 60, "--epochs", 2], ["--anchors", 1, "--epochs", 2],
                 ["--epochs", 0], ["--coverage-rows", "all", "--coverage-chunk", 77, "--epochs", 2],
                 ["--weight-decay", "0.1", "--epochs", 2],
                 ["--space", "again=a.npy", "--epochs", 2], ["--similarity", "cosine", "--epochs", 2]):
        kedge.ok("fit", *spaces, *FIT, *more)
        kedge.ok("transform", "y.kedge", "--space", "a", "-i", "a.npy", "-o", "rr.npy")
        assert np.isfinite(np.load(kedge.folder / "rr.npy")).all()
    np.save(kedge.folder / "zero.npy", np.zeros((200, 4), np.float32))
    kedge.refused(3, "fit", *spaces, "--space", "zero=zero.npy", *FIT, says=["'zero'", "all the same"])


def test_a_loss_that_is_not_finite_names_the_step(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(1, "fit", *spaces, *FIT, "--epochs", 1, "--batch", 200, "--lr", "1e308",
                  says=["last step", "learning rate"])
    done = kedge.refused(1, "fit", *spaces, *FIT, "--lr", "3e38", says=["the loss became", "at step", "learning rate"])
    assert "Traceback" not in done.stderr
