#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parallel reviews for experiments/marc.toml: English reviews with their sentiment, and machine translations of them.

    python experiments/marc/translate.py --train dataset_en_train.json --test dataset_en_test.json --out FOLDER

reads the English files of MARC (one JSON object per line with stars and review_body; Amazon no longer distributes the
corpus, so you need a copy), drops 3 stars, takes 20,000 train and 4,000 test reviews (a seeded sample, because MARC is
sorted by stars), and writes FOLDER/en.jsonl and de, es, fr, zh, each line {"text": ..., "label": 0 or 1}: what
'experiments/run marc --marc FOLDER' reads. Translations are greedy, by Helsinki-NLP's opus-mt models, and go into
LANGUAGE.jsonl.partial, which the same command continues. Needs '.[encode]' and sentencepiece; a GPU helps.
"""
import argparse
import json
import os
import pathlib
import random
import sys
from typing import Any

LANGUAGES = ("de", "es", "fr", "zh")
# This model knows several kinds of Chinese and is told which.
PREFIX = {"zh": ">>cmn_Hans<< "}


def reviews(path: pathlib.Path, count: int, text_field: str, stars_field: str) -> list[dict[str, Any]]:
    """A sample of the reviews that have a sentiment, in the order of the file."""
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
                text, stars = " ".join(record[text_field].split()), int(record[stars_field])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                sys.exit(f"translate: {path} line {number}: expected an object with {text_field} and "
                         f"{stars_field}: {error!r}")
            if text and stars != 3:
                found.append({"text": text, "label": int(stars > 3)})
    if len(found) < count:
        sys.exit(f"translate: {path} has {len(found)} reviews with a sentiment, and {count} are asked for; lower "
                 "the number")
    return [found[index] for index in sorted(random.Random(0).sample(range(len(found)), count))]


def lines_done(path: pathlib.Path) -> int:
    """How many whole lines a file has; what an interrupt left after them is cut off."""
    if not path.exists():
        return 0
    raw = path.read_bytes()
    whole = raw.rfind(b"\n") + 1
    os.truncate(path, whole)
    return raw.count(b"\n")


def translate(rows: list[dict[str, Any]], path: pathlib.Path, name: str, prefix: str,
              options: argparse.Namespace) -> None:
    """Writes the rows in another language, in the same order."""
    import torch
    import tqdm
    import transformers
    partial = path.with_name(path.name + ".partial")
    done = lines_done(partial)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(name, dtype=torch.float32).eval().to(device)
    with open(partial, "a", encoding="utf-8") as file, tqdm.tqdm(total=len(rows), initial=done, desc=path.stem) as bar:
        for start in range(done, len(rows), options.batch):
            batch = rows[start:start + options.batch]
            inputs = tokenizer([prefix + row["text"] for row in batch], return_tensors="pt", padding=True,
                               truncation=True, max_length=options.max_length).to(device)
            with torch.inference_mode():
                generated = model.generate(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"],
                                      num_beams=1, do_sample=False, max_new_tokens=options.max_length)
            for row, text in zip(batch, tokenizer.batch_decode(generated, skip_special_tokens=True)):
                # An empty translation would leave a row without text; the English then says which one it was.
                line = {"text": text.strip() or row["text"], "label": row["label"]}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            bar.update(len(batch))
    os.replace(partial, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--train", type=pathlib.Path, required=True, help="English train reviews, one JSON object per line")
    add("--test", type=pathlib.Path, required=True, help="English test reviews")
    add("--out", type=pathlib.Path, required=True, help="folder to write to")
    add("--train-rows", metavar="N", type=int, default=20000, help="how many (default: 20000)")
    add("--test-rows", metavar="N", type=int, default=4000, help="how many (default: 4000)")
    add("--text-field", metavar="NAME", default="review_body", help="(default: review_body)")
    add("--stars-field", metavar="NAME", default="stars", help="(default: stars)")
    add("--batch", metavar="N", type=int, default=32, help="reviews per step (default: 32)")
    add("--max-length", metavar="N", type=int, default=256, help="tokens of a review, before and after (default: 256)")
    add("--model", metavar="LANGUAGE=MODEL", action="append", default=[],
        help="instead of Helsinki-NLP/opus-mt-en-LANGUAGE")
    options = parser.parse_args()
    models = {language: f"Helsinki-NLP/opus-mt-en-{language}" for language in LANGUAGES}
    models |= dict(pair.split("=", 1) for pair in options.model)
    rows = (reviews(options.train, options.train_rows, options.text_field, options.stars_field)
            + reviews(options.test, options.test_rows, options.text_field, options.stars_field))
    options.out.mkdir(parents=True, exist_ok=True)
    english = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path = options.out / "en.jsonl"
    if path.exists() and path.read_text(encoding="utf-8") != english:
        sys.exit(f"translate: {path} holds other reviews than these; name another --out, or remove its files")
    path.write_text(english, encoding="utf-8")
    for language in LANGUAGES:
        if not (options.out / f"{language}.jsonl").exists():
            translate(rows, options.out / f"{language}.jsonl", models[language], PREFIX.get(language, ""), options)


if __name__ == "__main__":
    main()
