# SPDX-License-Identifier: Apache-2.0
"""The README's Python example, word for word, and what it says the example prints."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
CODE, PRINTED = re.findall(r"```python\n(.*?)```\nprints\n```\n(.*?)```", README, re.S)[0]


def check(printed: str) -> None:
    """The last digits of a number may differ from machine to machine; nothing else may."""
    numbers = re.compile(r"-?\d+\.\d+")
    assert numbers.sub("#", printed) == numbers.sub("#", PRINTED)
    for found, said in zip(map(float, numbers.findall(printed)), map(float, numbers.findall(PRINTED)), strict=True):
        assert abs(found - said) <= 0.02 * max(1, abs(said))
