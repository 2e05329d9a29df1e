# SPDX-License-Identifier: Apache-2.0
"""The site: PYTHONPATH=build/dev/python .venv/bin/python -m sphinx -W -q -b html docs build/docs/html"""
import re

import kedge
import kedge._options

project = "kedge"
version = release = kedge.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
default_role = "code"
smartquotes_action = "D"  # dashes; quotes in docstrings are Python's
myst_heading_anchors = 3  # headings can be linked to, as on a git host

html_theme = "furo"
html_title = f"kedge {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the descriptions say it, in words
maximum_signature_line_length = 80  # beyond that one parameter a line: fit has more than thirty

napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [(title, "params_style") for title in kedge._options.TITLES.values()]


def inside_the_site(app, document, source):
    """Links that leave the folder work on a git host; here they become the path in the repository."""
    source[0] = re.sub(r"\[([^]]+)\]\(\.\./([^)]+)\)", r"\1 (`\2`)", source[0])


def shorter_types(app, what, name, subject, options, signature, returns):
    """nanobind writes self and C++ types into signatures; what says nothing goes, and arrays are arrays."""
    if signature is not None:
        signature = re.sub(r"(numpy\.)?ndarray\[[^]]*\]", "ndarray", signature)
        signature = re.sub(r": object( \| None)?", "", signature)
        signature = re.sub(r"^\(self(, )?", "(", signature)
    if returns is not None:
        returns = None if returns == "object" else returns.replace("kedge._core.", "")
    return signature, returns


words = {}


def keep_words(app, what, name, subject, options, lines):
    """napoleon takes what stands before a colon in the text of a property for its type."""
    if what == "property":
        words[name] = list(lines)


def plain_text(app, what, name, subject, options, lines):
    """What reStructuredText would take for markup: a property without words of its own, recall@10, bundle_."""
    if what == "property":
        lines[:] = [""] if words[name][0].startswith("(self) ->") else words[name]
    for number, line in enumerate(lines):
        line = re.sub(r"(?<=\w)@(?=\w)", r"\\@", line)
        lines[number] = re.sub(r"(?<![`\\\w])(\w+)_(?=[.,;\s])", r"\1\\_", line)


def setup(app):
    app.connect("source-read", inside_the_site)
    app.connect("autodoc-process-signature", shorter_types)
    app.connect("autodoc-process-docstring", keep_words, priority=100)
    app.connect("autodoc-process-docstring", plain_text, priority=900)
