"""On the site: the annotated source, a page for each module of the layers: what is said, and beside it the code.

What is notable:
- nothing is written for it: docstrings and comments are the text, set as on the pages of the package;
- each class and function says which section builds it, where its entry is, which tests hold it, which name of labml it
  answers, and what its fast form is;
- links to listings lead here; ``book/moved.yml`` has the addresses of the listings of before.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.docstrings import prepare_docstring
from sphinx.util.docutils import SphinxDirective

from efficient_transformers.layers import fast
from tools.site import pages
from tools.site.listing import Row, code, definitions, rows, tree_of

ROOT = Path(__file__).parents[2]
FOLDER = "book/source"
DIRECTIVE = re.compile(r"annotated-source:: ([\w.]+)")
ENTRY = re.compile(r"auto(?:class|function):: [\w.]*?(\w+)$", re.MULTILINE)
ORIGINAL = re.compile(r"^\| `(\w+)` \| \{\w+\}`(\w+)` \|.*\| ([^|]+) \|$", re.MULTILINE)
MARK = "<!-- sources -->"
SHOWN = 3  # tests of a class; their file has the others
TESTS = {}


@cache
def modules() -> dict[str, str]:
    """The modules that have a page, by the name of the page, in the order of the table of contents."""
    names = re.findall(rf"{FOLDER}/(\w+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = {name: ROOT / FOLDER / f"{name}.md" for name in names}
    return {name: DIRECTIVE.findall(path.read_text(encoding="utf-8"))[0] for name, path in files.items()}


@cache
def entries() -> set[str]:
    """What has an entry on the package's pages."""
    files = (ROOT / "book" / "api").glob("*.md")
    return {name for path in files for name in ENTRY.findall(path.read_text(encoding="utf-8"))}


@cache
def originals() -> dict[str, list[tuple[str, str, list[str]]]]:
    """For each name of ours, the names of labml that it answers, with the anchors of their rows and their tests."""
    found: dict[str, list[tuple[str, str, list[str]]]] = {}
    for part in (ROOT / "book" / "from-labml.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title = part.partition("\n")[0]
        for theirs, ours, tests in ORIGINAL.findall(part):
            anchor = nodes.make_id(f"{title} {theirs}")
            found.setdefault(ours, []).append((theirs, anchor, re.findall(r"test_\w+", tests)))
    return found


@cache
def named_in_tests() -> dict[str, list[str]]:
    """The tests that name a class or function of the layers, those that name the fewest first."""
    ours = {name for module in modules() for name, _, _ in definitions(tree_of(module)) if "." not in name}
    found: dict[str, list[tuple[int, str]]] = {}
    for path in sorted((ROOT / "tests" / "package").glob("test_*.py")):
        for test in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                used = ours & {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
                for name in used:
                    found.setdefault(name, []).append((len(used), test.name))
    return {name: [test for _, test in sorted(tests)] for name, tests in found.items()}


def tests_of(name: str) -> list[str]:
    """First those that hold it to what it answers."""
    answers = [test for _, _, tests in originals().get(name, []) for test in tests]
    return list(dict.fromkeys([*answers, *TESTS.get(name, []), *named_in_tests().get(name, [])]))


def forms(name: str) -> Iterator[str]:
    """What is said of a function that has a fast form, or is one."""
    for plain, quick in fast.PAIRS.values():
        if name == plain.__name__:
            yield f"On a CPU, `{quick.__name__} <fast.html#{quick.__name__}>`__ computes the same in less time."
        if name == quick.__name__:
            where = plain.__module__.rpartition(".")[2]
            yield f"The fast form of `{name_of(plain)} <{where}.html#{name_of(plain)}>`__."


def name_of(function: Any) -> str:
    return str(function.__qualname__)


def explained(module: str, name: str) -> str:
    """Where the book explains it, if it does: a check of arguments and its like explain themselves."""
    return pages.explained(module, name) if name in entries() | set(pages.explanations()) else ""


def facts(module: str, name: str) -> Iterator[str]:
    """Where a class or function is explained and listed, what it answers, what holds it, as reStructuredText."""
    yield from forms(name)
    yield explained(module, name)
    if name in entries():
        yield f"Entry: :py:obj:`{name}`."
    if answered := {theirs: anchor for theirs, anchor, _ in originals().get(name, [])}:
        listed = ", ".join(f"`{theirs} <../from-labml.html#{anchor}>`__" for theirs, anchor in answered.items())
        yield f"Of labml's, it answers {listed}."
    if tests := tests_of(name):
        more = f" and {len(tests) - SHOWN} more" if len(tests) > SHOWN else ""
        yield f"Tests: {', '.join(f'``{test}``' for test in tests[:SHOWN])}{more}."


def box(kind: str, *children: nodes.Node, **attributes: Any) -> nodes.container:
    return nodes.container("", *children, is_div=True, classes=[kind], **attributes)


class AnnotatedSource(SphinxDirective):
    """``.. annotated-source:: package.module`` is the module, annotated by itself."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.metadata[self.env.docname]["html_theme.sidebar_secondary.remove"] = "true"
        self.path = self.arguments[0]
        self.module = self.path.rpartition(".")[2]
        self.env.note_dependency(str(Path(import_module(self.path).__file__ or "")))
        about = box("about", *self.docstring("module", "", tree_of(self.module)))
        return [box("opening", about, self.contents()), box("annotated", *map(self.row, rows(self.module)))]

    def docstring(self, what: str, name: str, node: Any) -> list[nodes.Node]:
        """A docstring as the package's pages have it."""
        lines = prepare_docstring(ast.get_docstring(node, clean=False) or "")
        made: Any = import_module(self.path)
        for part in name.split(".") if name else []:
            made = getattr(made, part)
        lines = GoogleDocstring(lines, self.config, self.env.app, what, name, made).lines()
        pages.part_list(lines)
        return list(self.parse_text_to_nodes("\n".join(lines)))

    def contents(self) -> nodes.Node:
        """The classes and functions of the module, each with its first line."""
        top = [(name, node) for name, node, _ in definitions(tree_of(self.module)) if "." not in name]
        lines = []
        for name, node in top:
            says = (ast.get_docstring(node) or "").partition("\n")[0]
            lines += [f"`{name} <#{name}>`__", f"   {says} {explained(self.module, name)}", ""]
        made = self.parse_text_to_nodes("\n".join(lines))
        return box("contents", *made)

    def row(self, row: Row) -> nodes.Node:
        shown = code(self.module, frozenset(modules()))
        note = self.note(row)
        note["ids"] += [f"L{number}" for number in row.silent]
        text = "".join(shown[number - 1] for number in row.code)
        listing = nodes.raw("", f'<pre class="highlight">{text}</pre>' if row.code else "<div></div>", format="html")
        return box("beside", note, listing)

    def note(self, row: Row) -> nodes.Element:
        if not row.name:
            return box("note" if row.code else "parting", *self.parse_text_to_nodes(" ".join(row.comment)))
        is_top = "." not in row.name
        what = "class" if isinstance(row.definition, ast.ClassDef) else "function" if is_top else "method"
        title = row.name.rpartition(".")[2]
        heading = nodes.title(title, title) if is_top else nodes.paragraph(title, title, classes=["method"])
        said = self.docstring(what, row.name, row.definition) if ast.get_docstring(row.definition) else []
        said += self.parse_text_to_nodes(" ".join(row.comment))
        if is_top:
            told = self.parse_text_to_nodes(" ".join(facts(self.module, row.name)))
            said.append(box("facts", *told))
        if is_top:
            return nodes.section("", heading, *said, ids=[row.name], classes=["note"])
        return box("note", heading, *said, ids=[row.name])


def fill(app: Any, docname: str, source: list[str]) -> None:
    """The list of all modules, each with the first sentence of its docstring."""
    if docname == FOLDER:
        rows = []
        for name in modules():
            says = (ast.get_docstring(tree_of(name)) or "").partition("\n")[0]
            rows.append(f"| [{name}.py](source/{name}.md) | {says} |")
        source[0] = source[0].replace(MARK, "\n".join(["| Module | What it is |", "| --- | --- |", *rows]))


def lead_to_pages(app: Any, doctree: nodes.document) -> None:
    """A link to the listing of a module with a page leads to the page."""
    names = {f"_modules/{path.replace('.', '/')}": page for page, path in modules().items()}
    for node in doctree.findall(lambda n: n.get("reftarget") in names if isinstance(n, nodes.Element) else False):
        node["reftarget"] = f"{FOLDER}/{names[node['reftarget']]}"


def list_no_more(app: Any) -> list[Any]:
    """No listing of what has a page."""
    for path in modules().values():
        getattr(app.env, "_viewcode_modules", {}).pop(path, None)
    return []


def add_style(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename.startswith(f"{FOLDER}/"):
        app.add_css_file("source.css")
