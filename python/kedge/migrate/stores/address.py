# SPDX-License-Identifier: Apache-2.0
"""What stores with names in them share: addresses, as scheme:place#name?key=value and scheme://host/name?key=value, and
what must hold before anything is changed."""
from __future__ import annotations

import urllib.parse

import numpy as np

from ..errors import Error, UsageError


def split_address(address, known):
    """(place, name, options). The place is a path or URL, or host:port after '//'; options come last.

    'known' are the options there are.
    """
    body = address.split(":", 1)[1]
    if body.startswith("//"):
        place, _, rest = body[2:].partition("/")
    else:
        place, _, rest = body.rpartition("#") if "#" in body else (body, "", "")
    name, _, query = rest.partition("?")
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    for option in options:
        if option not in known:
            raise UsageError(f"{address}: there is no option {option!r}; the options are {', '.join(known)}")
    if not place or not name:
        scheme = address.split(":", 1)[0]
        raise UsageError(f"{address}: expected {scheme}:path#name, with ?option=value behind the name")
    return place, name, options


def join_address(scheme, place, name, options, remote=False):
    query = urllib.parse.urlencode(options)
    start = f"{scheme}://{place}/" if remote else f"{scheme}:{place}#"
    return start + name + ("?" + query if query else "")


def require_same_place(store, like):
    if type(store) is not type(like) or store.place != like.place:
        raise UsageError(f"{store.address}: new vectors go beside the old ones, with the documents; {like.shown} is "
                         "somewhere else")


def require_width(store, ids, vectors, width):
    if vectors is not None and np.shape(vectors) != (len(ids), width):
        raise Error(f"{store.address} holds vectors of {width} values; found an array of shape {np.shape(vectors)} for "
                    f"{len(ids)} ids, so it was made for another model")
