# SPDX-License-Identifier: Apache-2.0
"""What each method and measure is, for someone who has not read the paper. A term is explained where it is new."""
from __future__ import annotations

import re

METHODS = {
    "absolute": "no shared language: a head on the raw embeddings of one encoder, used on that encoder alone. It is "
                "what the others are held against.",
    "random": "anchors are inputs drawn at random, the usual relative representation.",
    "kmeans": "anchors are the centres of clusters of inputs.",
    "fps": "anchors are inputs that lie far from each other.",
    "param-single": "anchors are mixtures of inputs, learned on one encoder (PARAM).",
    "param": "anchors are mixtures of inputs, learned on several encoders at once (PARAM), by gradient descent.",
    "ridge": "no anchors: each encoder is regressed on each other one, pair by pair. It is what you would do without "
             "kedge.",
    "consensus": "anchors are the directions on which several encoders agree most, found in one step without training.",
}
ENDINGS = {
    "cosine": "Similarity to an anchor is the cosine of the angle.",
    "wip": "Similarity to an anchor is the inner product after whitening, which evens out how an encoder stretches "
           "space.",
    "euclidean": "Similarity to an anchor is the distance.",
    "angular": "Similarity to an anchor is 1 - angle / pi.",
    "manhattan": "Similarity to an anchor is the sum of the differences of all values, without their signs.",
    "inner": "Similarity to an anchor is the plain inner product.",
    "ridge": "Encoders are attached by ridge regression.",
    "kernel": "Encoders are attached by a non-linear regression, which compares an item with all inputs of the "
              "support; this takes longer, in fitting and whenever it is used.",
}
MEASURES = {
    "RR": "relative representation: an item described by its similarity to a set of anchors, which every encoder has.",
    "zero-shot": "used on an encoder that neither the anchors nor the head were trained on.",
    "F1": "how many items are classified correctly, counting missed and wrong ones, averaged over classes by their "
          "size; 100 % is perfect.",
    "Accuracy": "the share of items classified correctly.",
    "MRR": "mean reciprocal rank: 1 if the same item always comes first in the other encoder, 1/2 if it comes second.",
    "R@1": "recall at 1: how often the same item comes first.",
    "R@5": "how often the same item is among the first five.",
    "R@10": "how often the same item is among the first ten.",
    "nMSE": "how far two encoders' RR of one item lie apart, relative to their spread; 0 is perfect.",
    "RR_std": "how far the values of an RR spread; neither large nor small is better.",
    "MSE": "mean squared error of a reconstruction; 0 is perfect.",
    "PSNR": "the same error in decibels; larger is better.",
    "±": "half of the 95 % interval: measured anew in the same way, the number would fall within it 19 times out of "
         "20. A difference smaller than its own interval is noise.",
}


def of_method(method: str) -> str | None:
    start = max((name for name in METHODS if method.startswith(name)), key=len, default=None)
    if start is None:
        return None
    endings = [text for name, text in ENDINGS.items() if name in method.split("-")[1:]]
    text = METHODS[start]
    return " ".join([text[0].upper() + text[1:], *endings])


def terms(words: str, said: set[str]) -> list[tuple[str, str]]:
    """(term, what it is) for each measure in the words that has not been explained; 'said' remembers them."""
    found = [term for term in MEASURES if term not in said
             and re.search(rf"(?<![\w@]){re.escape(term)}(?![\w@])", words)]
    said.update(found)
    return [(term, MEASURES[term]) for term in found]
