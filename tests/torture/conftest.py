# SPDX-License-Identifier: Apache-2.0
"""Every step on every hard space ends in finite numbers or in a sentence; what each got is counted."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tally import pytest_terminal_summary, tally  # noqa: E402, F401

try:
    import kedge._core  # noqa: F401
except ImportError as error:
    raise pytest.UsageError(f"the tests need the built package, as in PYTHONPATH=build/t/python: {error}")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also the cases that take minutes")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "error::RuntimeWarning")  # numpy's about NaN and overflow


@pytest.fixture
def steps(tally):  # noqa: F811
    """Takes steps with a space of a kind and counts what they get."""
    from steps import Steps

    return lambda section, kind: Steps(lambda outcome: tally(section, kind, outcome), kind != "ordinary")
