# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: it shows something, complains of nothing, asks for nothing, and fits a phone."""
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable

import matplotlib.image
import numpy as np
import pytest
from conftest import Report, fake_figures, fake_results
from reading import search

pytestmark = pytest.mark.long

Chromium = Callable[..., tuple[str, list[str]]]
LONG = [f"organisation/some_vision_transformer_{i}-patch14.reg4.lvd142m" for i in range(3)]


@pytest.fixture
def chromium(tmp_path: pathlib.Path) -> Chromium:
    """Opens a file and gives back what the browser wrote to stdout and the messages of the page's console."""
    program = shutil.which("chromium")
    if not program:
        pytest.fail("chromium is not installed; run 'scripts/setup test-all'")

    def opened(page: pathlib.Path, *options: str) -> tuple[str, list[str]]:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--hide-scrollbars", "--v=0",
                   "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'browser'}", *options, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stderr
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line or "Uncaught" in line]

    return opened


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A page with all there is: every method by default, numbers with their intervals, errors of decoders beside F1."""
    report = Report(tmp_path_factory.mktemp("full"))
    report.page_of(fake_results(targets=True), fake_figures(rows=50, pictures=True))
    return report.page


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_shows_in_a_browser(full: pathlib.Path, tmp_path: pathlib.Path, chromium: Chromium,
                                     width: int) -> None:
    shot = tmp_path / "shot.png"
    _, messages = chromium(full, f"--screenshot={shot}", f"--window-size={width},3000")
    assert messages == []
    pixels = matplotlib.image.imread(shot)[..., :3]
    assert pixels.shape == (3000, width, 3)
    bands = pixels.reshape(6, 500, width, 3)
    assert (bands.std(axis=(1, 2, 3)) > 0.02).all()  # something is drawn all the way down
    colours = (pixels * 255).astype(int) @ [65536, 256, 1]
    assert len(np.unique(colours)) > 200  # letters, heat and figures


def test_the_browser_would_tell_of_a_broken_page(tmp_path: pathlib.Path, chromium: Chromium) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text("<script>nowhere()</script>")
    _, messages = chromium(broken, "--dump-dom")
    assert any("nowhere" in line for line in messages), messages


def test_nothing_is_asked_from_elsewhere(full: pathlib.Path) -> None:
    page = full.read_text()
    places = re.findall(r"""(?:src|href|srcset|action|data)\s*=\s*["']?([^"'\s>]+)""", page)
    assert places and all(place.startswith(("#", "data:")) for place in places), places
    assert not re.search(r"@import|<script|<iframe|<link(?! rel=\"icon\" href=\"data:)", page)
    assert all(place.startswith("#") for place in re.findall(r"url\(([^)]*)\)", page))


@pytest.mark.parametrize("names", ["short", "long"])
def test_nothing_sticks_out_on_a_phone(full: pathlib.Path, report: Report, chromium: Chromium, names: str) -> None:
    page = full.read_text() if names == "short" else report.page_of(
        fake_results(encoders=LONG, seeds=2), fake_figures(encoders=LONG, rows=50, pictures=True))
    measured = report.folder / "measured.html"
    script = ("<script>const wide = document.documentElement.clientWidth;"
              "const out = [...document.querySelectorAll('section, section > *, figure, svg, .scroll')]"
              ".filter(e => e.getBoundingClientRect().right > wide + 1).map(e => e.className || e.tagName);"
              "document.title = 'measured ' + wide + ' ' + document.documentElement.scrollWidth + ' ' + out;</script>")
    measured.write_text(page.replace("</body>", script + "</body>"))
    dumped, _ = chromium(measured, "--dump-dom", "--window-size=420,900")
    wide, needed, out = search(r"<title>measured (\d+) (\d+) (.*?)</title>", dumped).groups()
    assert int(needed) <= int(wide) <= 500 and out == "", (wide, needed, out)


def test_tables_fit_a_screen_without_scrolling(full: pathlib.Path, tmp_path: pathlib.Path, chromium: Chromium) -> None:
    page, measured = full.read_text(), tmp_path / "measured.html"
    script = ("<script>document.title = 'measured ' + document.documentElement.scrollWidth + ' ' + "
              "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
              ".map(e => e.closest('section').id);</script>")
    measured.write_text(page.replace("</body>", script + "</body>"))
    dumped, _ = chromium(measured, "--dump-dom", "--window-size=1200,900")
    needed, wide = search(r"<title>measured (\d+) (.*?)</title>", dumped).groups()
    assert int(needed) <= 1200 and wide == "", (needed, wide)
