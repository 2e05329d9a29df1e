# SPDX-License-Identifier: Apache-2.0
"""What MkDocs cannot do by itself: links that leave docs/, and the Python reference, made from docstrings."""
import ast
import inspect
import logging
import pathlib
import pkgutil
import re
import textwrap
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[1]
log = logging.getLogger("mkdocs.hooks.docs_site")  # with --strict, a warning fails the build


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.site_name = f"kedge {pkgutil.resolve_name('kedge.__version__')}"
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def slug(title: str, separator: str) -> str:
    """The anchor of a heading, as on a git host."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def outside(link: re.Match[str]) -> str:
        """Such links work on a git host; here they become the path in the repository."""
        text, path = link.groups()
        if not (ROOT / path.split("#")[0]).exists():
            log.warning("%s links to ../%s, which does not exist", page.file.src_uri, path)
        return f"{text} (`{path}`)"

    if page.file.src_uri == "cli.md":
        markdown = "\n".join(map(wrap, markdown.split("\n")))
    markdown = re.sub(r"\[([^]]+)\]\(\.\./([^)]+)\)", outside, markdown)
    return re.sub(r"^```reference\n(.*?)^```$", lambda block: reference(block[1]), markdown, flags=re.M | re.S)


def wrap(line: str) -> str:
    """A line of the command's help, whose descriptions begin in one column, is not longer than the page is wide."""
    before = re.match(r" {2,}(-\S.*? {2,})?", line)
    if before is None:
        return line
    return textwrap.fill(line, 116, subsequent_indent=" " * before.end(), break_on_hyphens=False)


def reference(lines: str) -> str:
    """Markdown for the names of a block, one a line: a function, a class or a module, or some of its members."""
    parts = []
    for line in lines.splitlines():
        path, _, members = line.partition(":")
        subject, name = pkgutil.resolve_name(path), path.removeprefix("kedge.")
        if not inspect.ismodule(subject):
            parts.append(describe(subject, name, path, 3))
        else:
            parts.append(f'<span id="{path}"></span>\n\n{from_docstring(subject)}')
        if not inspect.isclass(subject) and not inspect.ismodule(subject):
            continue
        for member in members.replace(",", " ").split() or public(subject):
            value = inspect.getattr_static(subject, member)
            if isinstance(value, property):
                text = value.__doc__ or "(self)"  # nanobind's own words, if there are no others
                parts.append(f"- **{escape(member)}**" + ("" if text.startswith("(self)") else f": {escape(text)}"))
            elif isinstance(value, float):
                parts.append(f"- **{escape(member)}** = {value:g}")
            else:
                level = 3 if inspect.ismodule(subject) else 4
                parts.append(describe(getattr(subject, member), f"{name}.{member}", f"{path}.{member}", level))
    return "\n\n".join(parts)


def public(subject: Any) -> list[str]:
    """Properties and numbers first, which the reader finds in one list; then methods, in the order of the source."""
    names = getattr(subject, "__all__", None) or [name for name in vars(subject) if not name.startswith("_")
                                                  or name in ("__getitem__", "__contains__")]
    return sorted(names, key=lambda name: not isinstance(inspect.getattr_static(subject, name), (property, float)))


def describe(subject: Any, name: str, anchor: str, level: int) -> str:
    title = f"{'#' * level} {escape(name)} {{ #{anchor.replace('__', '')} }}"
    call = signature(subject, anchor if level == 3 else name)
    return "\n\n".join(part for part in (title, call, from_docstring(subject)) if part)


def signature(subject: Any, name: str) -> str:
    """Without types, which the descriptions give in words; nanobind's stands in the first line of a docstring."""
    own: Any = subject.__init__ if inspect.isclass(subject) else subject
    if hasattr(own, "__nb_signature__"):
        line = re.sub(r"(numpy\.)?ndarray\[[^]]*\]", "ndarray", own.__doc__.splitlines()[0])
        arguments = next(node for node in ast.walk(ast.parse(f"def {line}: pass")) if isinstance(node, ast.arguments))
        for argument in (*arguments.args, *arguments.kwonlyargs):
            argument.annotation = None
        text = re.sub(r"^self(, )?", "", ast.unparse(arguments))
    elif inspect.isclass(subject) and not inspect.isfunction(own):
        return ""  # not made by calling it
    else:
        found = inspect.signature(subject)
        bare = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name != "self"]
        text = str(inspect.Signature(bare))[1:-1]
    lines = textwrap.fill(f"{name}({text})", 108, subsequent_indent="    ",
                          break_long_words=False, break_on_hyphens=False)
    return f"```python\n{lines}\n```"


def from_docstring(subject: Any) -> str:
    text = inspect.getdoc(subject) or ""
    if hasattr(subject, "__nb_signature__"):
        text = text.partition("\n\n")[2]
    text, *rest = re.split(r"^(.+)\n-{3,}\n", text, flags=re.M)
    parts = [paragraphs(text)]
    for title, body in zip(rest[::2], rest[1::2]):
        parts.append(f"{escape(title)}\n{{ .section }}\n\n{entries(body)}")
    return "\n\n".join(part for part in parts if part)


def entries(body: str) -> str:
    """The names of a section of numpy's form, each with its type and its description; then text that follows them."""
    parts = []
    for block in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, text = block.partition("\n")
        name, _, kind = head.partition(" : ")
        if not text:
            parts.append(paragraphs(head))
            continue
        kind = f" <small>{escape(kind)}</small>" if kind else ""
        text = textwrap.indent(escape(inspect.cleandoc(text)), "    ").strip()
        parts.append(f"**{escape(name)}**{kind}\n:   {text}")
    return "\n\n".join(parts)


def paragraphs(text: str) -> str:
    parts = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if part.startswith(">>>"):
            parts.append("```python\n" + re.sub(r"^(>>>|\.\.\.) ?", "", part, flags=re.M) + "\n```")
        elif re.match(r"[\w, ]+ : ", part):
            parts.append(re.sub(r"^([\w, ]+) : ", r"- **\1**: ", escape(part), flags=re.M))
        else:
            parts.append(escape(part))
    return "\n\n".join(parts)


def escape(text: str) -> str:
    """Markdown that shows the text as it is, but for code in backticks."""
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\\])", r"\\\1", part).replace("\\<", "&lt;")
                   for part in re.split(r"(`[^`]*`)", text))
