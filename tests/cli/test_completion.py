# SPDX-License-Identifier: Apache-2.0
"""The scripts of 'kedge completion', in the shells they are for."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import Kedge

COMMANDS = {"fit", "attach", "match", "moments", "transform", "translate", "compare", "retrieve", "stitch", "sweep",
            "inspect", "export", "devices", "demo"}


def in_bash(kedge: Kedge, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    script = f'source <("{kedge.program}" completion bash)\n' \
             'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kedge; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-ec", script, "bash", *words], capture_output=True, text=True, cwd=kedge.folder)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return set(done.stdout.split())


def test_bash_offers_commands(kedge: Kedge) -> None:
    assert in_bash(kedge, "kedge", "") == COMMANDS | {"--help", "--version"}
    assert in_bash(kedge, "kedge", "tra") == {"transform", "translate"}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_bash_offers_every_option_of_the_help(kedge: Kedge, command: str) -> None:
    text = kedge.ok(command, "--help").stdout
    listed = re.findall(r"^  (-\S+)", text, re.M)
    options = {name for names in listed for name in names.split(",") if name != "-h"}
    assert options - {"--help"} and in_bash(kedge, "kedge", command, "-") == options | {"--config"}


def test_bash_offers_the_names_an_option_takes(kedge: Kedge) -> None:
    assert in_bash(kedge, "kedge", "fit", "--similarity", "") == {
        "wip", "cosine", "euclidean", "inner", "angular", "manhattan"}
    assert in_bash(kedge, "kedge", "fit", "--similarity", "co") == {"cosine"}
    assert in_bash(kedge, "kedge", "transform", "x.kedge", "--in", "") == set()  # a file, which bash knows better


def test_zsh_offers_commands_options_and_names(kedge: Kedge, tmp_path: pathlib.Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "_kedge").write_text(kedge.ok("completion", "zsh").stdout)
    # A real zsh in a terminal of its own, which is sent words and a tab, and shows what it offers.
    script = r"""
      zmodload zsh/zpty
      zpty shell zsh -f -i
      say() { zpty -w shell "$1"; }
      say "PS1= ; unsetopt zle_bracketed_paste; stty -echo columns 300; fpath=($PWD \$fpath)"
      say "autoload -U compinit; compinit -u -D; LISTMAX=10000; zstyle ':completion:*' list-prompt ''"
      say "print READ''Y"
      while zpty -r shell line; do [[ $line == *READY* ]] && break; done
      for words in "$@"; do zpty -w -n shell "$words"$'\t\t'; sleep 1; zpty -w -n shell $'\C-u'; done
      say "print DON''E"
      while zpty -r shell line; do print -r -- "$line"; [[ $line == *DONE* ]] && break; done
      zpty -d shell
    """
    environment = os.environ | {"TERM": "dumb", "HOME": str(tmp_path)}
    done = subprocess.run(["zsh", "-fc", script, "zsh", "kedge ", "kedge fit --si", "kedge fit --method cons"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert re.search(rf"^{command} +--", done.stdout, re.M), done.stdout
    assert "--similarity" in done.stdout and "consensus" in done.stdout, done.stdout


def test_an_unknown_shell_is_refused(kedge: Kedge) -> None:
    kedge.refused(2, "completion", "fish", says=["fish", "bash"])
