"""A small Sphinx extension: what `_config.yml` alone cannot say.

- Every object of the API page is found by each name that a reader may use for it.
- Names in code cells keep their links when only a part of the book is built again.
- A table without a header row (``| | |``) has row headers instead.
- Folded cells and captions, links, math, pictures, pages that are made, the landing page, what search engines see and
  the check of all links have a file each, ``site_*.py``.
"""

import gc
import html
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

PACKAGE = "efficient_transformers"
PARTS = (
    "site_cells",
    "site_links",
    "site_math",
    "site_images",
    "site_pages",
    "site_tables",
    "site_landing",
    "site_meta",
    "site_search",
    "site_finish",
    "site_check",
)
LISTING = re.compile(
    r'(<div class="highlight-\w+ notranslate"><div class="highlight"><pre>.*?</pre></div>\s*</div>)', re.DOTALL
)
MARKUP = re.compile(r"<[^>]*>")


def take_every_page_as_changed(app: Any) -> None:
    """codeautolink drops the links of pages that are written without being read, or that were up to date before."""
    app.env.find_files(app.config, app.builder)
    app.builder.get_outdated_docs = lambda: sorted(app.env.found_docs)


def read_every_page(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> set[str]:
    """The other half of the same."""
    return env.found_docs - added


def show_linked_code(app: Any, error: Exception | None) -> None:
    """Leave in a page what codeautolink will link: it takes all that it finds apart, a fifth of the build's time."""
    app.env.laid_aside = {}
    for name, examples in {} if error else getattr(app.env, "sphinx_codeautolink_transforms", {}).items():
        page, linked = Path(app.outdir, f"{name}.html"), {example.source.rstrip() for example in examples}
        if linked and page.is_file():
            parts = LISTING.split(page.read_text(encoding="utf-8"))  # listings at odd places
            code = [html.unescape(MARKUP.sub("", part)).rstrip() for part in parts]
            places = [i for i in range(1, len(parts), 2) if code[i] in linked]
            app.env.laid_aside[page] = parts, places
            page.write_text("\n".join(parts[i] for i in places), encoding="utf-8")


def show_all(app: Any, error: Exception | None) -> None:
    """The other half of the same: the whole page, with its linked listings."""
    for page, (parts, places) in app.env.laid_aside.items():
        for i, listing in zip(places, LISTING.findall(page.read_text(encoding="utf-8")), strict=True):
            parts[i] = listing
        page.write_text("".join(parts), encoding="utf-8")


def add_module_paths(app: Any, env: Any) -> None:
    """What is documented as ``package.name`` is also known as ``package.module.name``."""
    objects = env.get_domain("py").objects
    for name, entry in list(objects.items()):
        value: Any = import_module(PACKAGE)
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
        home = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
        if home.startswith(f"{PACKAGE}."):
            objects.setdefault(home, entry._replace(aliased=True))


def keep_own_names(app: Any, env: Any) -> None:
    """Only the package has an API page; for every other name codeautolink would import modules and find nothing."""
    pages = getattr(env, "sphinx_codeautolink_transforms", {})  # there for HTML only, not when links are checked
    for page, examples in pages.items():
        for example in examples:
            example.names = [name for name in example.names if name.import_components[0] == PACKAGE]
        pages[page] = [example for example in examples if example.names]


def add_short_ids(app: Any, doctree: Any) -> None:
    """What is documented as ``package.module.name`` is found as ``package.name``: so listings of code link to it."""
    for signature in doctree.findall(addnodes.desc_signature):
        module = signature.get("module") or PACKAGE
        short = [name.replace(f"{module}.", f"{PACKAGE}.", 1) for name in signature["ids"]]
        signature["ids"] += [name for name in short if name not in signature["ids"]]


def resolve_short_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A bare name in a docstring, such as :func:`build_model`, is a link in whatever module it stands."""
    domain, target = env.get_domain("py"), node.get("reftarget", "")
    if node.get("refdomain") != "py" or "." in target:
        return None
    matches = [name for name in domain.objects if name.split(".")[-1] == target]
    if not matches:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], min(matches, key=len), node, contnode)


def name_rows(app: Any, doctree: Any) -> None:
    """Drop header rows that are empty, and make the first column of such a table its header."""
    for head in list(doctree.findall(nodes.thead)):
        if not head.astext().strip():
            head.parent.next_node(nodes.colspec)["stub"] = 1
            head.parent.remove(head)


def setup(app: Any) -> dict[str, bool]:
    gc.disable()  # the build is short, and looking for cycles in its trees of nodes took a sixth of its time
    for part in PARTS:
        app.setup_extension(part)
    app.connect("builder-inited", take_every_page_as_changed, priority=400)  # codeautolink asks at 500
    app.connect("env-get-outdated", read_every_page)
    app.connect("doctree-read", name_rows)
    app.connect("doctree-read", add_short_ids)
    app.connect("env-updated", add_module_paths, priority=400)  # codeautolink reads the names at 500
    app.connect("env-updated", keep_own_names, priority=400)
    app.connect("build-finished", show_linked_code, priority=490)  # codeautolink writes its links at 500
    app.connect("build-finished", show_all, priority=510)
    app.connect("missing-reference", resolve_short_name)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
