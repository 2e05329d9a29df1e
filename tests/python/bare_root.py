# SPDX-License-Identifier: Apache-2.0
"""A root folder with glibc, Python and its standard library, and nothing else of this machine; programs run in it."""
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence

# Beside libc.so.6 itself: what glibc consists of, and libgcc_s, which it loads to end a thread.
GLIBC = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libresolv.so.2",
         "libgcc_s.so.1")
LEFT_OUT = shutil.ignore_patterns("site-packages", "dist-packages", "test", "tests", "idlelib", "__pycache__",
                                  "config-*", "_tkinter*")


def needed_by(files: Sequence[pathlib.Path]) -> set[pathlib.Path]:
    """The shared libraries that these files load, with all that those load."""
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    return {pathlib.Path(found) for found in re.findall(r"(/\S+) \(0x", listed)}


class BareRoot:
    """For one Python of this machine, which need not be the one that runs the tests."""

    def __init__(self, folder: pathlib.Path, python: pathlib.Path) -> None:
        self.folder = folder
        ask = ("import os, sys, sysconfig\n"
               "print(os.path.realpath(sys._base_executable), sysconfig.get_path('stdlib'), sep='\\n')")
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout
        self.python, stdlib = map(pathlib.Path, said.splitlines())
        shutil.copytree(stdlib, self.inside(stdlib), ignore=LEFT_OUT)
        libraries = needed_by([self.python, *stdlib.glob("lib-dynload/*.so")])
        glibc = next(library.parent for library in libraries if library.name == "libc.so.6")
        for file in {self.python, *libraries, *(glibc / name for name in GLIBC)}:
            self.add(file)
        for place in ("dev", "proc", "tmp", "here"):
            self.inside(f"/{place}").mkdir()

    def inside(self, path: str | pathlib.Path) -> pathlib.Path:
        """Where a path of the root lies in this machine."""
        return self.folder / os.fspath(path).lstrip("/")

    def add(self, file: pathlib.Path) -> None:
        """A file of this machine, at the same place."""
        self.inside(file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, self.inside(file))

    def run(self, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        """Runs a program in /here, with PATH=/env/bin and no other variables."""
        own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        enter = ('mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" && '
                 'exec env -i PATH=/env/bin HOME=/tmp "$1" --root="$0" --wd=/here "${@:2}"')
        unshare = shutil.which("unshare") or "unshare"
        return subprocess.run([unshare, "--mount", *own, "bash", "-c", enter, self.folder, unshare, *words],
                              capture_output=True, text=True)
