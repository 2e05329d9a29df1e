# SPDX-License-Identifier: Apache-2.0
"""experiments/captions/make on made-up sentences in four languages, and experiments/run on what it makes."""
import gzip
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from conftest import KEDGE, ROOT, Script, needs_kedge

pytestmark = pytest.mark.long

MAKE = ROOT / "experiments" / "captions" / "make"

# Who, what they do, where: a sentence has one of each.
WORDS = {
    "en": (("a dog", "a boy", "a girl", "two men", "a woman", "a child", "an old man", "a black cat"),
           ("sleeps", "is singing", "waits for the bus", "eats an apple", "reads the newspaper", "plays the guitar",
            "is laughing loudly", "washes a car"),
           ("in the park", "at the station", "on a bridge", "near the river", "in front of a church", "on the beach",
            "in a kitchen", "under a tree")),
    "de": (("ein Hund", "ein Junge", "ein Mädchen", "zwei Männer", "eine Frau", "ein Kind", "ein alter Mann",
            "eine schwarze Katze"),
           ("schläft", "singt gerade", "wartet auf den Bus", "isst einen Apfel", "liest die Zeitung", "spielt Gitarre",
            "lacht laut", "wäscht ein Auto"),
           ("im Park", "am Bahnhof", "auf einer Brücke", "nahe dem Fluss", "vor einer Kirche", "am Strand",
            "in einer Küche", "unter einem Baum")),
    "fr": (("un chien", "un garçon", "une fille", "deux hommes", "une femme", "un enfant", "un vieil homme",
            "un chat noir"),
           ("dort", "chante", "attend le bus", "mange une pomme", "lit le journal", "joue de la guitare", "rit fort",
            "lave une voiture"),
           ("dans le parc", "à la gare", "sur un pont", "près de la rivière", "devant une église", "sur la plage",
            "dans une cuisine", "sous un arbre")),
    "cs": (("pes", "chlapec", "dívka", "dva muži", "žena", "dítě", "starý muž", "černá kočka"),
           ("spí", "zpívá", "čeká na autobus", "jí jablko", "čte noviny", "hraje na kytaru", "nahlas se směje",
            "myje auto"),
           ("v parku", "na nádraží", "na mostě", "u řeky", "před kostelem", "na pláži", "v kuchyni", "pod stromem")),
}


def write_texts(folder: pathlib.Path) -> list[tuple[int, ...]]:
    """All 512 sentences, in the same seeded order in every language; French as multi30k has it, zipped."""
    folder.mkdir()
    places = list(itertools.product(range(8), repeat=3))
    random.Random(0).shuffle(places)
    for language, parts in WORDS.items():
        lines = "".join(" ".join(part[place] for part, place in zip(parts, chosen)) + " .\n" for chosen in places)
        if language == "fr":
            (folder / "train.fr.gz").write_bytes(gzip.compress(lines.encode()))
        else:
            (folder / (f"train.{language}" if language == "en" else f"{language}.txt")).write_text(lines)
    (folder / "labels.txt").write_text("".join(WORDS["en"][0][who] + "\n" for who, _, _ in places))
    return places


@pytest.fixture
def texts(tmp_path: pathlib.Path) -> pathlib.Path:
    write_texts(tmp_path / "texts")
    return tmp_path / "texts"


def make(*argv: object, encode: str = "kedge-encode", code: int = 0) -> str:
    done = subprocess.run([sys.executable, MAKE, *map(str, argv)], capture_output=True, text=True, timeout=1200,
                          env={**os.environ, "KEDGE_ENCODE": encode})
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def recall(records: list[dict[str, Any]], method: str) -> float:
    """Between the languages by n-grams: the tiny model knows few of the words."""
    return float(np.mean([record["recall@1"] for record in records if record["method"] == method
                          and record["zero_shot"] and "en" not in (record["encoder"], record["trained_on"])]))


@needs_kedge
def test_from_sentences_to_the_tables(script: Script, texts: pathlib.Path, models: dict[str, str], warm_encode: str,
                                      tmp_path: pathlib.Path) -> None:
    """A model for one language, n-grams for three: no row of the one is like any of the others."""
    out = tmp_path / "made"
    said = make(texts, "-o", out, "--rows", 400, "--test", 100, "--dims", 24, "--model", f"en={models['bert']}",
                "--encode", "--threads 2", encode=warm_encode)
    assert "de.npy: 400 rows, n-grams of 300 train rows" in said and "--train 0:300 --test 300:400" in said
    assert {np.load(out / f"{language}.npy").shape for language in ("de", "fr", "cs")} == {(400, 24)}
    assert (out / "fr.txt").read_text().count("\n") == 400
    labels = np.load(out / "labels_topic.npy")
    english = (out / "en.txt").read_text().splitlines()
    assert labels[next(n for n, line in enumerate(english) if line.startswith("a dog"))] == 0
    assert labels[next(n for n, line in enumerate(english) if line.startswith("a black cat"))] == 12
    done = script("captions", "--quick", "--work", tmp_path / "work", "--captions", out, "--", "--no-report",
                  "--threads", 2, "--anchors", 20)
    assert done.returncode == 0, done.stderr
    records = json.loads((tmp_path / "work" / "out" / "captions" / "results.json").read_text())["records"]
    assert recall(records, "consensus") > 0.9


def test_ngrams_are_learned_from_other_texts_where_there_are_enough(texts: pathlib.Path,
                                                                    tmp_path: pathlib.Path) -> None:
    said = make(texts, "-o", tmp_path / "made", "--rows", 200, "--test", 50, "--dims", 8, "--languages", "cs,de")
    assert "n-grams of 312 other texts" in said
    first = np.load(tmp_path / "made" / "cs.npy")
    lines = (texts / "cs.txt").read_text().splitlines(True)
    (texts / "cs.txt").write_text("".join(lines[:150] + ["úplně jiná slova\n"] * 50 + lines[200:]))
    make(texts, "-o", tmp_path / "made", "--rows", 200, "--test", 50, "--dims", 8, "--languages", "cs,de")
    second = np.load(tmp_path / "made" / "cs.npy")
    np.testing.assert_array_equal(first[:150], second[:150])  # what is learned does not depend on test rows
    assert np.ptp(second[150:], axis=0).max() == 0


def test_labels_of_ones_own(texts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    make(texts, "-o", tmp_path / "made", "--rows", 400, "--test", 100, "--dims", 8, "--labels", texts / "labels.txt")
    labels = np.load(tmp_path / "made" / "labels_topic.npy")
    names = (texts / "labels.txt").read_text().splitlines()[:400]
    assert labels.dtype == np.int64 and [sorted(set(names))[label] for label in labels] == names
    (texts / "numbers.txt").write_text("".join(f"{7 * (n % 3)}\n" for n in range(512)))
    make(texts, "-o", tmp_path / "made", "--rows", 400, "--test", 100, "--dims", 8, "--labels", texts / "numbers.txt")
    assert np.load(tmp_path / "made" / "labels_topic.npy")[:4].tolist() == [0, 7, 14, 0]


def test_what_is_not_parallel_is_refused(texts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    few = ("-o", tmp_path / "made", "--rows", 400, "--test", 100, "--dims", 8)
    assert "no texts in 'es'; expected train.es or es.txt" in make(texts, *few, "--languages", "en,es", code=3)
    lines = (texts / "de.txt").read_text().splitlines(True)
    (texts / "de.txt").write_text("".join(lines[:-1]))
    assert "512 in en, 511 in de" in make(texts, *few, code=3)
    (texts / "de.txt").write_text("".join([*lines[:6], "\n", *lines[7:]]))
    assert "de.txt line 7 is empty" in make(texts, *few, code=3)
    (texts / "de.txt").write_bytes(b"\xff\xfe")
    assert "expected lines of UTF-8" in make(texts, *few, code=3)
    (texts / "train.fr.gz").write_bytes((texts / "train.fr.gz").read_bytes()[:50])
    assert "train.fr.gz" in make(texts, *few, "--languages", "en,fr", code=3)
    (texts / "few.txt").write_text("0\n1\n")
    assert "few.txt has 2 lines" in make(texts, *few, "--languages", "en,cs", "--labels", texts / "few.txt", code=3)
    (texts / "gap.txt").write_text("0\n" * 6 + "\n" + "1\n" * 505)
    assert "gap.txt line 7 is empty" in make(texts, *few, "--languages", "en,cs", "--labels", texts / "gap.txt", code=3)
    assert not (tmp_path / "made").exists()


def test_wrong_words_are_sentences(texts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = ("-o", tmp_path / "made")
    for words, says in ((("--rows", 600), "has 512 lines, and --rows asks for 600"),
                        (("--test", 512), "--test must leave train rows"),
                        (("--model", "en"), "LANGUAGE=MODEL"), (("--model", "es=x"), "'es', which is not among"),
                        (("--languages", "en"), "two or more"), (("-o", texts), "is the folder of the texts"),
                        (("--rows", 400, "--test", 100, "--dims", 900), "smaller --dims")):
        assert says in make(texts, *out, *words, code=2)
    assert "there is no nowhere" in make(texts, *out, "--rows", 400, "--test", 100, "--model", "en=x", encode="nowhere",
                                           code=1)


def test_ngrams_in_the_place_of_a_model_do_not_pass_for_its_embeddings(
        texts: pathlib.Path, models: dict[str, str], warm_encode: str, tmp_path: pathlib.Path) -> None:
    few = (texts, "-o", tmp_path / "made", "--rows", 200, "--test", 50, "--dims", 8, "--languages", "en,de")
    by_model = ("--model", f"en={models['bert']}", "--encode", "--threads 2")
    make(*few, *by_model, encode=warm_encode)
    first = (tmp_path / "made" / "en.npy").read_bytes()
    make(*few)
    assert (tmp_path / "made" / "en.npy").read_bytes() != first
    make(*few, *by_model, encode=warm_encode)
    assert (tmp_path / "made" / "en.npy").read_bytes() == first


@needs_kedge
def test_the_script_leaves_embeddings_where_they_are(script: Script, tmp_path: pathlib.Path) -> None:
    """Also those that an earlier make left in the folder where it works."""
    mine, given = tmp_path / "work" / "embeddings" / "captions", tmp_path / "given here"
    mine.mkdir(parents=True)
    given.mkdir()
    for language in ("en", "de", "fr", "cs"):
        (mine / f"{language}.npy").write_text("mine")
        rows = np.random.default_rng(len(language)).normal(size=(400, 12)).astype("f")
        np.save(given / f"{language}-encoder.npy", rows)
    np.save(given / "labels_topic.npy", np.arange(400) % 3)
    words = ("captions", "--quick", "--work", tmp_path / "work", "--captions", given)
    done = script(*words, "--", "--no-report", "--methods", "consensus", "--anchors", 8)
    assert done.returncode == 0, done.stderr
    assert {path.read_text() for path in mine.iterdir()} == {"mine"}
    (given / "en-other.npy").write_bytes(b"")
    done = script(*words)
    assert done.returncode == 3 and "2 files for en: en-encoder.npy en-other.npy" in done.stderr


def guide_blocks(first: str, last: str) -> list[tuple[str, str]]:
    """The code of docs/languages.md between two headings: its language and its text."""
    text = (ROOT / "docs" / "languages.md").read_text()
    return re.findall(r"^```(sh|python)\n(.*?)^```", text[text.index(first):text.index(last)], re.DOTALL | re.MULTILINE)


@needs_kedge
def test_the_guide_can_be_followed(texts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With the sentences above in the place of the messages, and as many rows as there are of them."""
    blocks = guide_blocks("## Try it", "## What you get")
    assert [kind for kind, _ in blocks] == ["sh", "sh", "sh", "python", "sh"]
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "kedge").symlink_to(KEDGE)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    module = pathlib.Path(KEDGE).resolve().parents[1] / "python"  # built beside the command
    env = {**os.environ, "PYTHONPATH": str(module),
           "PATH": f"{bin_folder}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = ""
    for kind, code in blocks[1:]:
        code = code.replace("make texts", "make texts --dims 24").replace("6000", "439").replace("7000", "512")
        code = code.replace("-o out/messages", "-o out/messages --no-report --quiet")
        command = ["bash", "-euc", code] if kind == "sh" else [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr
        said += done.stdout
    found = dict(re.findall(r"^(en|de|fr|cs) ([0-9.]+)$", said, re.MULTILINE))
    assert set(found) == {"en", "de", "fr", "cs"} and min(map(float, found.values())) > 0.9
    assert (tmp_path / "out" / "messages" / "tables.md").is_file()
