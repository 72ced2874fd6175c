"""A Sphinx extension: all that the site has beyond what Sphinx and its public extensions make of the notebooks.

What is notable:
- STEPS is the whole order: for each event of Sphinx, in the order of a build, what is done before and after what other
  extensions do then, by file and function; the priorities that Sphinx asks for follow from it;
- each file of this folder is about one thing that a reader sees, and names none of Sphinx's events.
"""

from __future__ import annotations

import gc
import pkgutil
from collections.abc import Callable
from typing import Any

from tools.site import answers, math, source

STEPS: dict[str, list[str]] = {
    "config-inited": ["others", "meta.find_address", "source.lead_to_pages", "pages.write_stubs"],
    "builder-inited": ["others", "search.begin", "assets.put_together"],
    "env-purge-doc": ["others", "links.forget"],
    # A page is read.
    "source-read": ["others", "cells.open_guesses", "marks.fill"],
    "autodoc-process-docstring": ["others", "pages.explain"],  # napoleon is done with it
    "doctree-read": [
        "answers.take_cells",
        "cells.fold_cells",
        "cells.take_captions",
        "images.take_vectors",
        "cells.close_answers",  # with their captions
        "questions.ask",
        "others",
        "links.find",  # the numbers of the captions
        "links.link_tests",
        "links.lead_out",
        "annotate.stand_side_by_side",
        "search.name_terms",
        "terms.name_symbols",
        "tables.set_minus_signs",
        "widths.mark_wide",
    ],
    # A page is written.
    "missing-reference": ["others", "links.resolve_short_name"],
    "doctree-resolved": [
        "others",
        "links.link_mentions",
        "search.collect",  # what the glossary leads to is linked by then
        "terms.link_terms",
        "contents.lead_up",
    ],
    "html-page-context": [
        "others",
        "contents.move_contents",
        "tables.stack_tables",
        "annotate.annotate",
        "images.size_images",
        "code.lighten",
        "math.keep_together",
        "assets.choose",  # what the page needs by now
    ],
    # All pages are written.
    "build-finished": [
        "others",
        "landing.write_instrument",
        "search.write_sections",
        "models.write_weights",
        "previews.write",
        "policy.write",  # when nobody else will write into pages
        "check.check_links",
    ],
}
MIDDLE = 500  # the priority of who asks for none


def once_written(step: Callable[[Any], None]) -> Callable[[Any, Exception | None], None]:
    """The step of a build that has ended well, and wrote pages."""
    return lambda app, error: step(app) if error is None and app.builder.name == "html" else None


def setup(app: Any) -> dict[str, bool]:
    gc.disable()  # until the build has ended: to look for cycles in trees of nodes takes a third of its time
    app.connect("build-finished", lambda app, error: gc.enable())
    app.add_directive("annotated-source", source.AnnotatedSource)
    app.add_directive("answer", answers.Block)
    app.add_html_math_renderer("mathml", (math.inline, None), (math.display, None))
    for event, steps in STEPS.items():
        for place, name in enumerate(steps, -steps.index("others")):
            if name != "others":
                step = pkgutil.resolve_name(f"tools.site.{name}")
                step = once_written(step) if event == "build-finished" else step
                app.connect(event, step, priority=MIDDLE + 20 * place)
    return {"parallel_read_safe": False, "parallel_write_safe": False}
