# SPDX-License-Identifier: Apache-2.0
"""Every step on every hard space ends in finite numbers or in a sentence; what each got is counted."""
import pytest
from tally import Tally

try:
    import kedge._core  # noqa: F401
    from steps import Steps, TakeSteps
except ImportError as error:
    raise pytest.UsageError(f"the tests need the built package, as in PYTHONPATH=build/t/python: {error}") from error


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the cases that take minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "error::RuntimeWarning")  # numpy's about NaN and overflow


@pytest.fixture
def steps(tally: Tally) -> TakeSteps:
    """Takes steps with a space of a kind and counts what they get."""
    return lambda section, kind: Steps(lambda outcome: tally(section, kind, outcome), kind != "ordinary")
