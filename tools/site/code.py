"""On the site: names in code are links to the pages of the package.

What is notable:
- each object of the package's pages is found by every name that a reader may use for it;
- sphinx-codeautolink links names in cells; it must read each page in each build, and only what it will link;
- names of other packages are left alone: it would import their modules and find nothing.
"""

from __future__ import annotations

import html
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx import addnodes

PACKAGE = "efficient_transformers"
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
