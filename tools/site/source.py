"""On the site: the annotated source, a page for each module of the layers: what is said, and beside it the code.

What is notable:
- nothing is written for it: docstrings and comments are the text, set as on the pages of the package;
- each class and function says which section builds it, where its entry is, which tests hold it, which name of labml it
  answers, and what its fast form is;
- what has an entry is linked to its lines here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.domains.python import PyObject
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.docfields import DocFieldTransformer
from sphinx.util.docstrings import prepare_docstring

from efficient_transformers.layers import fast
from tools.notebooks import tested
from tools.site import links, pages
from tools.site.listing import Row, code, rows
from tools.site.names import Definition, anchors, definitions, tree_of

ROOT = Path(__file__).parents[2]
FOLDER = "book/source"
ORIGINAL = re.compile(r"^\| `(\w+)` \| \{\w+\}`(\w+)` \|.*\| ([^|]+) \|$", re.MULTILINE)
SHOWN = 3  # tests of a class; their file has the others
PAIRED = ["test_values_are_the_same", "test_derivatives_of_any_order_are_the_same"]  # all fast forms with plain ones


@cache
def modules() -> list[str]:
    """The names of the modules that have a page, in the order of the table of contents."""
    return re.findall(rf"{FOLDER}/(\w+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))


def top(module: str) -> dict[str, Definition]:
    """The classes and functions of a module."""
    return {name: node for name, node, _ in definitions(tree_of(module)) if "." not in name}


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
    ours = {name for module in modules() for name in top(module)}
    found: dict[str, list[tuple[int, str]]] = {}
    for test, names in tested.names():
        for name in ours & names:
            found.setdefault(name, []).append((len(ours & names), test))
    return {name: [test for _, test in sorted(tests)] for name, tests in found.items()}


def forms(module: str, name: str) -> Iterator[tuple[str, str]]:
    """What a function with a fast form is, with the other form, as reStructuredText."""
    for plain, quick in fast.PAIRS.values():
        home = plain.__module__.rpartition(".")[2]
        if (module, name) == (home, plain.__name__):
            yield "Its fast form, on a CPU", f"`{quick.__name__} <fast.html#{quick.__name__}>`__"
        if (module, name) == ("fast", quick.__name__):
            yield "The fast form of", f"`{plain.__name__} <{home}.html#{plain.__name__}>`__"


def facts(module: str, name: str) -> Iterator[str]:
    """Where a class or function is explained and listed, what it answers, what holds it, as reStructuredText."""
    for says, link in forms(module, name):
        yield f"{says}: {link}."
    entry = f"Its entry: :py:obj:`{name}`." if name in pages.entries(pages.documented()[module]) else ""
    explained = pages.explained(name, ast.get_docstring(top(module)[name]) or "")
    yield f"{explained} {entry}".strip()
    if answered := {theirs: anchor for theirs, anchor, _ in originals().get(name, [])}:
        listed = ", ".join(f"`{theirs} <../from-labml.html#{anchor}>`__" for theirs, anchor in answered.items())
        yield f"labml's name: {listed}." if len(answered) == 1 else f"labml's names: {listed}."
    answers = [test for _, _, tests in originals().get(name, []) for test in tests]  # hold it to what it answers
    paired = PAIRED if list(forms(module, name)) else []
    if tests := list(dict.fromkeys([*answers, *paired, *named_in_tests().get(name, [])])):
        held = []
        for test in tests[:SHOWN]:
            words = test.removeprefix("test_").replace("_", " ")
            held.append(links.to_repository(words, *tested.places()[test]))
        more = f"; and {len(tests) - SHOWN} more" if len(tests) > SHOWN else ""
        yield f"Tested: {'; '.join(held)}{more}."


def box(kind: str, *children: nodes.Node, **attributes: Any) -> nodes.container:
    return nodes.container("", *children, is_div=True, classes=[kind], **attributes)


class AnnotatedSource(PyObject):
    """``.. annotated-source:: package.module`` is the module, annotated by itself."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.domain = "py"  # whose sections of a docstring are known
        self.module = self.arguments[0].rpartition(".")[2]
        self.loaded = pages.documented()[self.module]
        self.env.note_dependency(str(self.loaded.__file__))
        about = box("about", *self.docstring("", tree_of(self.module)))
        first, *others = map(self.row, rows(self.module))
        file = f"{self.arguments[0].replace('.', '/')}.py"
        entries = f"; `its entries <../api/{self.module}.html>`__"
        meta = self.parse_text_to_nodes(links.to_repository(file, f"src/{file}") + entries)
        first.children[0].append(box("facts", *meta))  # beside the imports
        return [box("opening", about, self.contents()), first, *others]

    def docstring(self, name: str, node: Any) -> list[nodes.Node]:
        """A docstring as the package's pages have it."""
        what = "class" if isinstance(node, ast.ClassDef) else "function" if name else "module"
        lines = prepare_docstring(ast.get_docstring(node, clean=False) or "")
        made = attrgetter(name)(self.loaded) if name else self.loaded
        lines = GoogleDocstring(lines, self.config, self.env.app, what, name, made).lines()
        pages.part_list(lines)
        said = box("said", *self.parse_text_to_nodes("\n".join(lines)))
        DocFieldTransformer(self).transform_all(said)
        return list(said.children)

    def contents(self) -> nodes.Node:
        """The classes and functions of the module, each with its first line."""
        lines = []
        for name, node in top(self.module).items():
            doc = ast.get_docstring(node) or ""
            lines += [f"`{name} <#{name}>`__", f"   {doc.partition(chr(10))[0]} {pages.explained(name, doc)}", ""]
        return box("contents", *self.parse_text_to_nodes("\n".join(lines)))

    def row(self, row: Row) -> nodes.Element:
        """A row; of a class or function of the module it is a section, which the contents of the page list."""
        title, note = row.name.rpartition(".")[2], self.note(row)
        note["ids"] += [f"L{number}" for number in row.silent]
        shown = code(self.module, frozenset(modules()))
        text = "".join(shown[number - 1] for number in row.code)
        listing = nodes.raw("", f'<pre class="highlight">{text}</pre>' if row.code else "<div></div>", format="html")
        if row.name in top(self.module):
            return nodes.section("", nodes.title(title, title), note, listing, ids=[row.name], classes=["beside"])
        return box("beside", note, listing, ids=[row.name] if row.name else [])

    def note(self, row: Row) -> nodes.container:
        comment = self.parse_text_to_nodes("\n".join(row.comment))
        if row.definition is None:
            return box("note" if row.code else "parting", *comment)
        said = self.docstring(row.name, row.definition) if ast.get_docstring(row.definition) else []
        of, _, title = row.name.rpartition(".")
        if not of:
            told = self.parse_text_to_nodes("\n\n".join(facts(self.module, row.name)))
            return box("note", *said, *comment, box("facts", *told))
        lineage = [] if said or comment else getattr(self.loaded, of).__mro__[1:]
        for base in [c for c in lineage if c.__module__.startswith(pages.PACKAGE) and title in vars(c)][:1]:
            name, home = f"{base.__name__}.{title}", base.__module__.rpartition(".")[2]
            comment = self.parse_text_to_nodes(f"Overrides `{name} <{home}.html#{name}>`__.")
        return box("note", nodes.paragraph(title, title, classes=["method"]), *said, *comment)


def listed() -> str:
    """The list of all modules, each with the first sentence of its docstring."""
    return pages.table_of({f"[{name}.py](source/{name}.md)": ast.get_docstring(tree_of(name)) for name in modules()})


def find(domain: str, info: dict[str, str]) -> str | None:
    """Where ``[source]`` beside an entry leads: to its lines here, or to its file in the repository."""
    name = info["fullname"]
    module = import_module(info["module"])
    home = getattr(getattr(module, name.partition(".")[0]), "__module__", module.__name__)
    page = home.rpartition(".")[2]
    if page not in modules():
        return links.in_repository(str(Path(import_module(home).__file__ or "").relative_to(ROOT))) or None
    return f"../source/{page}.html#{name}" if name in anchors(page) else None


def lead_to_pages(app: Any, config: Any) -> None:
    config.linkcode_resolve = find
