"""The site that these tests look at is what `make book` built, to its end; and one page can be built alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tools.make import page
from tools.make.screenshots import SITE
from tools.site import policy, previews, search

PAPER = '<a class="reference external" href="https://x.org/1">A</a>'
FIRST = "The first page, in a sentence that is long enough for it."
PAGES = {
    "book/bibliography.html": f'<div class="citation" id="id1"><p>A. {PAPER}</p></div>',
    "notebooks/1.html": f'<section id="one"><h2>One</h2><p>{FIRST}</p></section>',
    "notebooks/2.html": f'<p><a href="1.html#one">1</a> {PAPER} <a onclick="f()">f</a></p>',
}


@pytest.mark.site
def test_the_last_build_of_the_site_ended_without_a_warning():
    ready, built = SITE.parent / "ready", SITE / "index.html"  # written by every build
    assert ready.exists(), "the build failed, or was not that of `make book`"
    assert built.stat().st_mtime <= ready.stat().st_mtime, (
        "built once more since, with a warning or without `make book`"
    )


def finished(folder, pages):
    """All files of a site after these pages were written into it."""
    for name, article in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'<meta charset="utf-8" /><script>1</script><article>{article}</article>', encoding="utf-8")
    app = SimpleNamespace(outdir=folder)
    previews.write(app)
    policy.write(app)
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.*")}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_is_written_again_ends_as_if_all_were(name, tmp_path):
    changed = {name: PAGES[name].replace("first page", "changed page").replace("1</a>", "this</a>")}
    finished(tmp_path / "again", PAGES)
    again = finished(tmp_path / "again", changed)
    assert again == finished(tmp_path / "whole", PAGES | changed)
    assert ("changed page" in again["_static/previews/notebooks/1.js"]) == (name == "notebooks/1.html")
    assert "onclick" not in again["notebooks/2.html"]


def test_the_search_keeps_what_it_knows_of_pages_that_are_not_written_again(tmp_path):
    (tmp_path / "_static").mkdir()
    app = SimpleNamespace(builder=SimpleNamespace(name="html"), outdir=tmp_path, env=SimpleNamespace())
    for docs, written in (("ab", {"a": ["A", []], "b": ["B", []]}), ("ac", {"c": ["C", []]})):
        search.begin(app)
        app.book_sections |= written
        app.env.found_docs = set(docs)
        search.write_sections(app)
    assert search.read(tmp_path) == {"a": ["A", []], "c": ["C", []]}


def test_a_page_is_named_by_the_end_of_its_path():
    assert page.page_of("02-primer-ez") == "notebooks/02-primer-ez"
    assert page.page_of("source/attention") == "book/source/attention"
    for name in ("", "ez"):
        with pytest.raises(ValueError, match="NAME is"):
            page.page_of(name)
