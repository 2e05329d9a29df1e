# SPDX-License-Identifier: Apache-2.0
"""What the command prints of what a step found."""
from __future__ import annotations

from collections.abc import Iterator

from .types import Found

WAYS = {"old": "stay with the old model", "translated": "translate", "fused": "translate and fuse",
        "new": "embed everything again"}
MEASURES = {"overlap": "overlap@10", "ndcg": "nDCG@10"}


def plan(found: Found) -> Iterator[str]:
    length = found["length"]
    yield f"{found['store']}"
    yield f"  {found['rows']:,} rows of {found['width']} values ({found['kind']}), compared by {found['metric']}"
    if found["index"]:
        yield f"  index: {found['index']}"
    if length["mean"] is not None:
        yield f"  lengths {length['least']:.3g} to {length['largest']:.3g}, mean {length['mean']:.3g}"
    yield (f"  {found['duplicates']:,} duplicates, {found['zeros']:,} rows of zeros, {found['nan']:,} with NaN or "
           "infinity")
    yield "  texts: " + ("yes" if found["texts"] else "none; name their field as text=FIELD in the address, or a file "
                         "with --texts, or embed by id")
    yield "What it takes"
    yield f"  sample: {found['embed_sample']:,} documents to embed{_minutes(found['minutes_sample'])}"
    yield f"  everything: {found['embed_all']:,} documents to embed{_minutes(found['minutes_all'])}"
    yield f"  apply: about {_about(found['minutes_apply'])}" + (
        f", {found['new_bytes'] / 1e6:,.0f} MB for {found['new_width']} values in every row"
        if found["new_bytes"] else "")
    yield "  cutover: " + (found["atomic"] or "one step")
    yield "Next: kedge-migrate sample"


def sample(found: Found) -> Iterator[str]:
    yield f"{found['drawn']:,} documents drawn, {found['embedded']:,} of them embedded by the new model"
    if found.get("enough"):
        yield found["enough"]
    if "to_embed" in found:
        yield (f"Embed the documents in {found['to_embed']}, in that order, then: kedge-migrate sample --vectors "
               "FILE.npy")
    else:
        yield "Next: kedge-migrate fit"


def fit(found: Found) -> Iterator[str]:
    for method, error in found["errors"].items():
        chosen = "   <- chosen" if method == found["map"] and len(found["errors"]) > 1 else ""
        yield (f"{method:8} error {error:.3f} (share of the new vectors' variance that it misses, on rows left "
               f"out){chosen}")
    yield "error by sample size: " + ", ".join(f"{rows:,} rows {error:.3f}" for rows, error in found["curve"])
    yield from found["warnings"]
    if found["waiting"]:
        yield f"{found['waiting']:,} documents of the sample are not embedded yet and were left out"
    yield f"wrote {found['file']}"
    yield "Next: kedge-migrate check"


def check(found: Found) -> Iterator[str]:
    source = {"documents": "the sample's own documents as queries", "log": "the queries of the log",
              "judged": "judged queries"}[found["queries"]]
    yield (f"Searches among {found['rows']:,} documents of the sample, with {source}; each translated by a map that "
           "has not seen it")
    names = [name for name in MEASURES if name in found["scores"]["new"]]
    ways = [way for way in WAYS if way in found["scores"]]
    yield f"{'':26}" + "".join(f"{MEASURES[name]:>24}" for name in names)
    for way in ways:
        cells = [found["scores"][way][name] for name in names]
        yield f"{WAYS[way]:26}" + "".join(f"{f'{mean:.3f} ({low:.3f} to {high:.3f})':>24}" for mean, low, high in cells)
    if "whole" in found:
        yield "In the whole store, as apply will make it (real vectors of the sample, all others translated)"
        if "ndcg" not in names:  # too few of the judged documents are in the sample
            yield f"{'':50}{MEASURES['ndcg']:>24}"
        for way, (mean, low, high) in found["whole"]["scores"].items():
            yield f"{WAYS[way]:26}{'':24}{f'{mean:.3f} ({low:.3f} to {high:.3f})':>24}"
    yield "In the sample, as documents are embedded again"
    for share, scores in found["curve"]:
        shown = [way for way in ("translated", "fused") if way in scores]
        line = "   ".join(f"{MEASURES[name]} " + ", ".join(f"{way} {scores[way][name]:.3f}" for way in shown)
                          for name in names)
        yield f"  {share:4.0%}   {line}"
    yield f"Verdict: {found['verdict']}: {found['why']}."
    yield "Next: kedge-migrate apply"


def apply(found: Found) -> Iterator[str]:
    if found["rows_per_second"]:
        yield (f"{found['rows']:,} rows went through, {found['real']:,} real vectors and the rest translated, into "
               f"{found['into']} ({found['rows_per_second']:,.0f} rows/s, and {found['index_seconds']:.0f} s for its "
               "index)")
    else:
        yield f"all rows had gone through before, into {found['into']}"
    if found["skipped"]:
        yield f"{found['skipped']:,} rows of zeros, NaN or infinity have no translation and were left out"
    yield (f"meanwhile {found['arrived']:,} rows arrived, {found['changed']:,} changed, {found['removed']:,} went; all "
           "caught up")
    yield "Next: kedge-migrate verify"


def verify(found: Found) -> Iterator[str]:
    yield (f"{found['old_rows']:,} old rows, {found['new_rows']:,} new ones; {found['cannot_translate']:,} cannot be "
           "translated")
    since = "came since the cutover" if found["switched"] else "gone from the old since apply"
    yield (f"{found['lost']:,} old rows are not in the new place, {found['extra']:,} {since}, {found['twice']:,} are "
           "there twice")
    if found["examples"]:
        yield f"  such as {', '.join(map(repr, found['examples']))}"
    yield (f"{found['compared']:,} rows made again: {found['same_bits']:,} the same bit for bit, {found['differ']:,} "
           f"differ (largest difference {found['largest_difference']:.1e}, kept as {found['kind']})")
    if not found["whole"]:
        yield "Not whole: run 'kedge-migrate apply' again"
    elif not found["switched"]:
        pending = found["lost"] or found["extra"]
        yield "All is right" + ("; the cutover takes along what came and went" if pending else "")
        yield "Next: kedge-migrate cutover"


def cutover(found: Found) -> Iterator[str]:
    if found["already"]:
        yield f"this migration is cut over already; the old vectors are in {found['old']}"
        return
    yield (f"before it {found['arrived']:,} rows had arrived, {found['changed']:,} changed, {found['removed']:,} gone; "
           "all caught up")
    yield f"{found['new']} has the new vectors now; the old ones are in {found['old']}"
    yield "Next: kedge-migrate top-up; kedge-migrate rollback goes back"


def rollback(found: Found) -> Iterator[str]:
    if found["switched_back"]:
        yield "the old vectors are back in their place"
    if found["only_new"] and not found["dropped"]:
        yield (f"{found['only_new']:,} documents that arrived since the cutover have no old vector; their new ones are "
               "kept")
    if found["dropped"]:
        yield "the new vectors are removed; the sample and the map are kept"


def top_up(found: Found) -> Iterator[str]:
    yield f"{found['real']:,} of {found['rows']:,} documents have real vectors ({found['share']:.1%})"
    if found["without_text"]:
        yield f"{found['without_text']:,} documents have no text and stay translated"
    if found["expected"]:
        for name, title in MEASURES.items():
            if name in found["expected"]["new"]:
                values = ", ".join(f"{way} {scores[name]:.3f}" for way, scores in found["expected"].items())
                yield f"expected {title}, as measured in the sample: {values}"
    if found["to_embed"]:
        yield (f"Embed the documents in {found['to_embed']}, in that order, then: kedge-migrate top-up --vectors "
               "FILE.npy")


def status(found: Found) -> Iterator[str]:
    yield f"{found['config']}: {found['state']}"
    yield f"  old vectors: {found['old']}"
    yield f"  new vectors: {found['new']}"
    if found["rows"] and found["applied"]:
        yield f"  {found['rows']:,} rows, {found['real']:,} of them with real vectors"
    elif found["rows"]:
        yield f"  {found['rows']:,} rows, {found['apply_rows']:,} of them applied; a sample of {found['sample']:,}"
    for at, step in found["steps"]:
        yield f"  {at}  {step}"
    yield f"Next: kedge-migrate {found['next']}" if found["next"] else "Next: remove the old vectors when you are sure"


def _minutes(minutes: float | None) -> str:
    return "" if minutes is None else f", about {_about(minutes)}"


def _about(minutes: float) -> str:
    if minutes < 2:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 180 else f"{minutes / 60:.0f} h"


def report(found: Found) -> Iterator[str]:
    yield f"wrote {found['file']}"


def sql(found: Found) -> Iterator[str]:
    yield found["sql"].rstrip()
    if found["installed"]:
        yield "-- installed"
