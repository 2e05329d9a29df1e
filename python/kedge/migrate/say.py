# SPDX-License-Identifier: Apache-2.0
"""What the command prints of what a step found."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .types import Found, Id

WAYS = {"old": "stay with the old model", "translated": "translate", "fused": "translate and fuse",
        "new": "embed everything again"}
MEASURES = {"overlap": "overlap@10", "ndcg": "nDCG@10"}
EXPECTED = {"overlap": "overlap@10 in the sample", "ndcg": "nDCG@10 in the sample",
            "whole_ndcg": "nDCG@10 in the whole store"}

TOPPED_UP = {
    "without_text": "have no text and stay translated",
    "not_there": "are not in the new place: they have no translation, or were removed",
    "edited": "were edited or embedded by applications while they were embedded here; the vectors of their old texts "
              "were not written, and another top-up embeds what needs it",
    "theirs": "had vectors of the new model that applications wrote; they were kept"}


def plan(found: Found) -> Iterator[str]:
    length = found["length"]
    yield f"{found['store']}"
    about = "" if found["counted"] else "about "
    yield f"  {about}{found['rows']:,} rows of {found['width']} values ({found['kind']}), compared by {found['metric']}"
    if found["without_vector"]:
        yield (f"  {about}{found['without_vector']:,} rows without a vector, which stay without one until a top-up "
               "after the cutover")
    if found["index"]:
        yield f"  index: {found['index']}"
    if length["mean"] is not None:
        yield f"  lengths {length['least']:.3g} to {length['largest']:.3g}, mean {length['mean']:.3g}"
    among = "" if found["looked_at"] >= found["rows"] else f"among {found['looked_at']:,} rows: "
    yield (f"  {among}{found['duplicates']:,} duplicates, {found['zeros']:,} rows of zeros, {found['nan']:,} with NaN "
           "or infinity")
    yield "  texts: " + ("yes" if found["texts"] else "none; name their field as text=FIELD in the address, or a file "
                         "with --texts, or embed by id")
    if found["triggers"]:
        yield ("  triggers that run for rows of this table which get a vector: for every row if new vectors go into a "
               "column of it, otherwise only at a rollback:")
        yield from (f"    {trigger}" for trigger in found["triggers"])
    yield "What it takes"
    for what in ("sample", "all"):
        money = f", {found[f'cost_{what}']:,.2f} at this price" if found[f"cost_{what}"] is not None else ""
        yield (f"  {'everything' if what == 'all' else what}: {found[f'embed_{what}']:,} documents to embed"
               f"{_minutes(found[f'minutes_{what}'])}{money}")
    yield f"  apply: about {_about(found['minutes_apply'])}" + "".join(
        f", {found[name] / 1e6:,.0f} MB {words}" for name, words in (
            ("new_bytes", f"for {found['new_width']} values in every row"), ("index_bytes", "for its index"),
            ("log_bytes", "of the server's log")) if found[name])
    yield "  cutover: " + (found["atomic"] or "one step")
    if found["unseen"]:
        yield f"  {found['unseen']}"
    if found["password_left_out"]:
        yield (f"The password is not written to {found['password_left_out']}: have it in PGPASSWORD or ~/.pgpass, or "
               "name a variable that holds it in the address, as &password_env=NAME")
    yield "Next: kedge-migrate sample"


def sample(found: Found) -> Iterator[str]:
    yield f"{found['drawn']:,} documents drawn, {found['embedded']:,} of them embedded by the new model"
    yield from _paid(found)
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
    yield from _no_better(found)
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
    yield "In the sample, as documents are embedded again at random"
    yield from _curve(found["curve"], names)
    if "ordered" in found:
        yield "The same in the order of top-up, which comes from half of the queries; the other half asks"
        yield from _curve(found["ordered"][1:-1], names)
    yield from _cut_offs(found["cut_offs"])
    yield f"Verdict: {found['verdict']}: {found['why']}."
    if "gate" in found:
        gate = found["gate"]
        kept, low, high = gate["share"]
        yield (f"Gate: {gate['way']}, search keeps {kept:.3f} ({low:.3f} to {high:.3f}) of the {gate['of']} model's "
               f"nDCG@10, and {gate['asked']:g} was asked for: {'passed' if gate['passed'] else 'not passed'}")
    yield "Next: kedge-migrate apply"


def _no_better(found: Found) -> Iterator[str]:
    """What must not be missed: between good models of equal strength it is always so."""
    where, place = (found["whole"], "the whole store") if "whole" in found else (found, "the sample")
    gain, name = where["gain"].get("translated"), "ndcg" if where["share"] else "overlap"
    if gain is not None and gain[1] <= 0:
        yield (f"Translation alone is no better than staying with the old model: {MEASURES[name]} in {place} changes "
               f"by {gain[0]:+.3f} ({gain[1]:+.3f} to {gain[2]:+.3f})")


def _curve(points: list[Any], names: list[str]) -> Iterator[str]:
    for share, scores in points:
        shown = [way for way in ("translated", "fused") if way in scores]
        line = "   ".join(f"{MEASURES[name]} " + ", ".join(f"{way} {scores[way][name]:.3f}" for way in shown)
                          for name in names)
        yield f"  {share:4.0%}   {line}"


def _cut_offs(cut_offs: list[Found]) -> Iterator[str]:
    if cut_offs:
        yield "Cut-offs that let as many of the ten best pass (decided alike; of what passed, still passes)"
        yield f"  {'old':>6}" + "".join(f"{title:>24}" for title in ("new model", "translated", "fused"))
    for one in cut_offs:
        cells = (f"{at['at']:.3f} ({at['agreement'][0]:.1%}; {at['kept']:.0%})" for at in one["ways"].values())
        yield f"  {one['old']:6.3g}" + "".join(f"{cell:>24}" for cell in cells)


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
    if found["differ_ids"]:
        yield f"  these differ: {_some(found['differ_ids'])}"
    if found["noted"]:
        yield f"{found['noted']:,} changes of others are noted and not caught up yet"
    if not found["whole"]:
        yield "Not whole: run 'kedge-migrate apply' again, which translates these rows anew"
    elif not found["switched"]:
        pending = found["lost"] or found["extra"] or found["noted"]
        yield "All is right" + ("; the cutover takes along what came and went" if pending else "")
        yield "Next: kedge-migrate cutover"


def cutover(found: Found) -> Iterator[str]:
    if found["already"]:
        yield f"cut over since {found['since']}"
        yield f"{found['new']} has the new vectors; the old ones are in {found['old']}"
        if found["view"]:
            yield f"{found['view']} shows the new ones"
        if found["caught"]:
            yield (f"since the last look {found['caught']['arrived']:,} rows had arrived, "
                   f"{found['caught']['changed']:,} changed, {found['caught']['removed']:,} gone; all caught up")
        return
    yield (f"before it {found['arrived']:,} rows had arrived, {found['changed']:,} changed, {found['removed']:,} gone; "
           "all caught up")
    yield f"{found['new']} has the new vectors now; the old ones are in {found['old']}"
    if found["view"]:
        yield f"{found['view']} shows the new ones"
    yield "Next: kedge-migrate top-up; kedge-migrate rollback goes back"


def rollback(found: Found) -> Iterator[str]:
    if found["switched_back"]:
        yield "the old vectors are back in their place"
    if found["translated_back"]:
        yield (f"{len(found['translated_back']):,} documents came or changed since the cutover; their old vectors are "
               f"translated from the new ones: {_some(found['translated_back'])}")
    if found["old_text"]:
        yield f"{len(found['old_text']):,} have a new text and the vector of their old one: {_some(found['old_text'])}"
    if found["without_vector"]:
        yield (f"{len(found['without_vector']):,} have a text and no vector of either model: "
               f"{_some(found['without_vector'])}")
    if found["to_embed"]:
        yield f"all of these are in {found['to_embed']}; have the old model embed them"
    if found["only_new"] and not found["dropped"]:
        yield (f"{found['only_new']:,} documents that arrived since the cutover have no old vector; their new ones are "
               "kept")
    if found["dropped"]:
        yield (f"{'the new vectors are removed' if found['removed'] else 'there were no new vectors to remove'}; the "
               "sample and the map are kept")


def finish(found: Found) -> Iterator[str]:
    yield f"{found['new']} is all there is to ask now; " + (
        f"{found['old']} is removed" if found["old_dropped"] else
        f"remove what is left of {found['old']} when you like")
    if found["follows"]:
        yield "Triggers that stay remove the vectors of documents that go, and mark those of edited ones as stale"


def top_up(found: Found) -> Iterator[str]:
    yield f"{found['real']:,} of {found['rows']:,} documents have real vectors ({found['share']:.1%})"
    yield from (f"{found[name]:,} documents {words}" for name, words in TOPPED_UP.items() if found[name])
    yield from _paid(found)
    if found["measured"]:
        values = ", ".join(f"{way} {mean:.3f}" for way, (mean, _, _) in found["measured"].items())
        yield f"measured {EXPECTED['whole_ndcg']}: {values}"
    elif found["expected"]:
        shown = [name for name in EXPECTED if name in found["expected"]["new"]]
        for name in shown if "whole_ndcg" not in shown else ["overlap", "whole_ndcg"]:
            values = ", ".join(f"{way} {scores[name]:.3f}" for way, scores in found["expected"].items())
            yield f"expected {EXPECTED[name]}: {values}"
    if found["to_embed"]:
        yield (f"Embed the documents in {found['to_embed']}, in that order, then: kedge-migrate top-up --vectors "
               "FILE.npy")


def status(found: Found) -> Iterator[str]:
    yield f"{found['config']}: {found['state']}"
    yield f"  old vectors: {found['old']}"
    yield f"  new vectors: {found['new']}"
    if found["since"]:
        yield f"  searches go to the new vectors since {found['since']}"
    if found["rows"] and found["switched"]:
        kept = "the old ones are gone" if found["old_rows"] is None else f"{found['old_rows']:,} an old one"
        yield (f"  {found['rows']:,} documents have a new vector, {kept}; {found['real']:,} were embedded by the new "
               "model")
    elif found["rows"] and found["applied"]:
        yield f"  {found['rows']:,} rows; {found['real']:,} documents were embedded by the new model"
    elif found["rows"]:
        yield f"  {found['rows']:,} rows, {found['apply_rows']:,} of them applied; a sample of {found['sample']:,}"
    for at, step in found["steps"]:
        yield f"  {at}  {step}"
    if found["next"]:
        yield f"Next: kedge-migrate {found['next']}" + (", when you are sure" if found["next"] == "finish" else "")
    elif found["old_rows"] is not None:
        yield "Next: remove the old vectors when you like"


def _paid(found: Found) -> Iterator[str]:
    if "tokens" in found:
        cost = "" if found["cost"] is None else f", which cost {found['cost']:,.2f}"
        yield f"{found['tokens']:,} tokens so far{cost}"


def _some(ids: Sequence[Id], most: int = 10) -> str:
    return ", ".join(map(repr, ids[:most])) + (f" and {len(ids) - most:,} more" if len(ids) > most else "")


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
