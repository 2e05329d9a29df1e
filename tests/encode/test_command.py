# SPDX-License-Identifier: Apache-2.0
"""What a user meets: exit codes, sentences, and no torch if none is needed."""
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from conftest import Run, make_gpt2, noise, python
from kedge.encode import UsageError, encode

pytestmark = pytest.mark.long


@pytest.mark.parametrize("words", [["--help"], ["--list"]])
def test_help_and_list_do_not_import_torch(words: list[str]) -> None:
    code = ("import sys; from kedge.encode.__main__ import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
            "print([name for name in ('torch', 'timm', 'transformers', 'numpy') if name in sys.modules])")
    done = python("-c", code, *words)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stderr
    if words == ["--list"]:
        assert "vit_small_patch16_224" in done.stdout and "google/gemma-3-1b-pt" in done.stdout


def test_a_missing_package_is_named(models: dict[str, str], sentences: pathlib.Path, pictures: pathlib.Path,
                                    tmp_path: pathlib.Path) -> None:
    for missing, data, model in (("torch", sentences, "bert"), ("transformers", sentences, "bert"),
                                 ("timm", pictures, "timm"), ("numpy", pictures, "timm")):
        code = (f"import sys; sys.modules['{missing}'] = None\nfrom kedge.encode.__main__ import main\n"
                "sys.exit(main(sys.argv[1:]))")
        done = python("-c", code, "--model", models[model], "--data", data, "-o", tmp_path / "o.npy")
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        named = "torch" if missing == "numpy" else missing
        assert missing in done.stderr and f"pip install '{named}>=" in done.stderr


def test_an_unreachable_hub_is_a_sentence(sentences: pathlib.Path, pictures: pathlib.Path, tmp_path: pathlib.Path,
                                          run: Run) -> None:
    for data, model in ((sentences, "gpt2"), (pictures, "vit-s"),
                        (sentences, "sentence-transformers/all-MiniLM-L6-v2")):
        code, out, err = run("--model", model, "--data", data, "-o", tmp_path / "o.npy")
        assert code == 1 and "the hub is not reachable and the model is not in the cache" in err and out == ""
        assert "give a local folder" in err
    assert not list(tmp_path.glob("o.*"))


def usage(models: dict[str, str], sentences: pathlib.Path, pictures: pathlib.Path,
          tmp_path: pathlib.Path) -> dict[str, tuple[list[Any], str]]:
    out, bert, vit = ["-o", tmp_path / "o.npy"], ["--model", models["bert"]], ["--model", models["timm"]]
    text, image = ["--data", sentences], ["--data", pictures]
    odd = tmp_path / "odd.dat"
    odd.write_text("the dog\n")
    return {
        "nothing": ([], "--model, --data, --out"),
        "unknown option": ([*bert, *text, *out, "--trust-remote-code"], "unrecognized"),
        "unknown kind": (["--model", models["bert"], "--data", odd, *out], "--kind text"),
        "text model, images": ([*bert, *image, *out], "the data are images"),
        "image model, texts": ([*vit, *text, *out], "the data are texts"),
        "preset of the wrong kind": (["--model", "ViT-S", *text, *out], "the data are texts"),
        "rows that are not there": ([*bert, *text, *out, "--rows", "0:31"], "within the 30"),
        "rows in the wrong order": ([*bert, *text, *out, "--rows", "5:5"], "FIRST before END"),
        "no rows": ([*bert, *text, *out, "--rows", "five"], "FIRST:END"),
        "not an npy": ([*bert, *text, "-o", tmp_path / "o.csv"], ".npy"),
        "split of texts": ([*bert, *text, *out, "--split", "test"], "--rows"),
        "split of a folder without": ([*vit, *image, *out, "--split", "test"], "--split"),
        "labels of a folder": ([*vit, *image, *out, "--labels", "coarse"], "CIFAR-100"),
        "field of lines": ([*bert, *text, *out, "--field", "text"], "no fields"),
        "field of images": ([*vit, *image, *out, "--field", "text"], "--field"),
        "pooling of images": ([*vit, *image, *out, "--pooling", "mean"], "for texts"),
        "pooling of sentence-transformers": (["--model", models["sentence"], *text, *out, "--pooling", "cls"],
                                             "its own pooling"),
        "first token of a causal model": (["--model", models["gpt2"], *text, *out, "--pooling", "cls"], "last or mean"),
        "no such timm model": (["--model", "vit_smol_patch16_224", *image, *out], "vit_small_patch16_224"),
        "batch of nothing": ([*bert, *text, *out, "--batch", "0"], "--batch"),
        "a folder as texts": ([*bert, *image, *out, "--kind", "text"], "folder"),
        "a file as images": ([*vit, *text, *out, "--kind", "image"], "folder"),
    }


def test_wrong_usage_exits_2(models: dict[str, str], sentences: pathlib.Path, pictures: pathlib.Path,
                             tmp_path: pathlib.Path, run: Run) -> None:
    for name, (words, says) in usage(models, sentences, pictures, tmp_path).items():
        code, out, err = run(*words)
        assert code == 2 and says in err and out == "", f"{name}: {code} {err}"


def test_a_bad_file_exits_3_and_is_named(models: dict[str, str], pictures: pathlib.Path, tmp_path: pathlib.Path,
                                         run: Run) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "hollow").mkdir()
    files = {"blank.txt": b"the dog\n\na cat\n", "none.txt": b"", "latin.txt": b"the dog\nun caf\xe9\n",
             "field.jsonl": b'{"text": "the dog"}\n{"body": "a cat"}\n',
             "broken.jsonl": b'{"text": "the dog"}\n{"text"\n', "list.jsonl": b'["the dog"]\n',
             "number.jsonl": b'{"text": "the dog"}\n{"text": 7}\n',
             "empty.csv": b"text\nthe dog\n\"\"\n", "other.csv": b"body\nthe dog\n"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    says = {"blank.txt": "line 2 has no text", "none.txt": "no rows", "latin.txt": "line 2 is not UTF-8",
            "field.jsonl": "line 2 has no field 'text'; it has: body", "broken.jsonl": "line 2 is not JSON",
            "list.jsonl": "line 1", "number.jsonl": "line 2", "empty.csv": "row 2 (line 3)",
            "other.csv": "it has: body", "absent.txt": "no such file"}
    for name, words in says.items():
        code, _, err = run("--model", models["bert"], "--data", tmp_path / name, "-o", tmp_path / "o.npy")
        assert code == 3 and words in err and name in err, f"{name}: {code} {err}"
    cases = {"empty": (models["timm"], tmp_path / "empty", "no images"),
             "no model": (str(tmp_path / "hollow"), pictures, "holds no model"),
             "no folder": ("./nowhere", pictures, "no such folder")}
    for name, (model, data, words) in cases.items():
        code, _, err = run("--model", model, "--data", data, "-o", tmp_path / "o.npy")
        assert code == 3 and words in err, f"{name}: {code} {err}"
    (tmp_path / "labels.jsonl").write_text('{"text": "the dog", "y": 1.5}\n')
    code, _, err = run("--model", models["bert"], "--data", tmp_path / "labels.jsonl", "-o", tmp_path / "o.npy",
                       "--label-field", "y")
    assert code == 3 and "line 1" in err and "1.5" in err
    assert not list(tmp_path.glob("o.*"))


def test_a_damaged_image_is_named(models: dict[str, str], pictures: pathlib.Path, tmp_path: pathlib.Path,
                                  run: Run) -> None:
    raw = (pictures / "cat" / "10.png").read_bytes()
    (pictures / "cat" / "10.png").write_bytes(raw[:len(raw) // 2])
    code, _, err = run("--model", models["timm"], "--data", pictures, "-o", tmp_path / "o.npy")
    assert code == 3 and "cat/10.png cannot be read as an image" in err


def test_a_text_without_tokens_is_named(models: dict[str, str], tmp_path: pathlib.Path, run: Run) -> None:
    (tmp_path / "d.txt").write_text("the dog\n~~\n")
    code, _, err = run("--model", models["gpt2"], "--data", tmp_path / "d.txt", "-o", tmp_path / "o.npy")
    assert code == 3 and "d.txt line 2: the tokenizer makes no token" in err


def test_nan_and_overflow_name_the_row(tmp_path: pathlib.Path, sentences: pathlib.Path, run: Run) -> None:
    import safetensors.torch
    folder = make_gpt2(tmp_path / "sick")
    path = tmp_path / "sick" / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    for value, extra, says in ((float("nan"), [], "NaN"), (1e6, ["--precision", "float16"], "use --precision float32")):
        # The last layer's bias of the norm reaches the output as it is.
        weights["transformer.ln_f.bias"][3] = value
        safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
        code, _, err = run("--model", folder, "--data", sentences, "-o", tmp_path / "o.npy", *extra)
        assert code == 1 and "sentences.txt line 1" in err and says in err
        assert not (tmp_path / "o.npy").exists()


def test_foreign_code_is_not_run(models: dict[str, str], tmp_path: pathlib.Path, sentences: pathlib.Path,
                                 run: Run) -> None:
    import shutil
    shutil.copytree(models["sentence"], tmp_path / "evil")
    modules = json.loads((tmp_path / "evil" / "modules.json").read_text())
    modules[1]["type"] = "antigravity.Pooling"
    (tmp_path / "evil" / "modules.json").write_text(json.dumps(modules))
    code, _, err = run("--model", tmp_path / "evil", "--data", sentences, "-o", tmp_path / "o.npy")
    assert code == 3 and "antigravity.Pooling" in err
    shutil.copytree(models["bert"], tmp_path / "custom")
    config = json.loads((tmp_path / "custom" / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}
    (tmp_path / "custom" / "config.json").write_text(json.dumps(config))
    (tmp_path / "custom" / "mine.py").write_text("raise SystemExit('the code ran')\n")
    code, _, err = run("--model", tmp_path / "custom", "--data", sentences, "-o", tmp_path / "o.npy")
    assert code in (1, 3) and "does not run code" in err, err


def test_no_gpu_and_no_folder_exit_1(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path,
                                     run: Run) -> None:
    import torch
    if not torch.cuda.is_available():
        code, _, err = run("--model", models["bert"], "--data", sentences, "-o", tmp_path / "o.npy", "--device", "cuda")
        assert code == 1 and "no GPU" in err
    code, _, err = run("--model", models["bert"], "--data", sentences, "-o", tmp_path / "no" / "o.npy")
    assert code == 1 and "create it first" in err


def test_summary_and_record(models: dict[str, str], pictures: pathlib.Path, tmp_path: pathlib.Path, run: Run) -> None:
    code, out, err = run("--model", models["timm"], "--data", pictures, "-o", tmp_path / "o.npy", "--json", "--quiet")
    summary, record = json.loads(out), json.loads((tmp_path / "o.json").read_text())
    assert code == 0 and err == "" and (summary["rows"], summary["dim"], summary["classes"]) == (5, 16, 3)
    for key in ("model", "library", "details", "data", "versions", "when", "dim", "rows", "settings"):
        assert key in record
    assert record["details"]["input"] == [3, 32, 32] and record["versions"]["timm"]


def test_the_api_raises_what_the_command_exits_with(models: dict[str, str], sentences: pathlib.Path,
                                                    tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="within the 30"):
        encode(models["bert"], sentences, tmp_path / "o.npy", rows="0:99")
    with pytest.raises(TypeError):
        encode(models["bert"], sentences, tmp_path / "o.npy", no_such_option=1)
    (tmp_path / "one").mkdir()
    noise(0).save(tmp_path / "one" / "a.png")
    found = encode(models["timm"], str(tmp_path / "one"), str(tmp_path / "i.npy"))
    assert isinstance(found, np.memmap) and not found.flags.writeable
