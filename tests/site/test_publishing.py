"""What the book shows to the world: the landing page, what search engines see, pictures, links, workflows."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from jinja2 import Environment, FileSystemLoader

from tools.make import repository
from tools.notebooks import run_notebooks
from tools.site import check, landing, links, meta

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
ADDRESS = "https://github.com/somebody/some-book"


def page(name: str) -> BeautifulSoup:
    return BeautifulSoup((SITE / name).read_text(encoding="utf-8"), "html.parser")


def test_with_an_address_each_card_leads_to_colab(monkeypatch):
    monkeypatch.setattr(repository, "address", lambda: ADDRESS)
    hrefs = [link["href"] for link in BeautifulSoup(landing.cards(), "html.parser").select(".more a")]
    assert hrefs == [repository.colab(ADDRESS, name) for name in run_notebooks.chapters()]


@pytest.mark.site
def test_each_page_says_what_it_is():
    pages = [p for p in sorted(SITE.rglob("*.html")) if "_static" not in p.parts]
    named = [str(path.relative_to(SITE)) for path in pages]
    book = [name for name in named if name.startswith(("book/", "notebooks/"))]
    assert "notebooks/01-transformer.html" in book
    descriptions = {}
    for name in book:
        text = (SITE / name).read_text(encoding="utf-8")
        head = BeautifulSoup(text[: text.index("</head>")], "html.parser")  # the rest would take seconds
        tags = {tag.get("property") or tag.get("name"): tag.get("content") for tag in head.select("meta")}
        assert head.select_one("link[rel=canonical]") is None  # before an address is set
        assert 40 <= len(tags["description"]) <= 160
        assert not re.search(r"[\\$]", tags["description"]), name
        assert (ROOT / "book" / "static" / Path(tags["og:image"]).name).exists()
        assert head.title.get_text().startswith(tags["og:title"])
        descriptions.setdefault(tags["description"], []).append(name)
    chapters_of = [names for names in descriptions.values() if any(n.startswith("notebooks/") for n in names)]
    assert all(len(names) == 1 for names in chapters_of), "two chapters with one description"
    assert page("book/index.html").title.get_text() == "Efficient Transformers, Annotated"


@pytest.mark.site
def test_before_an_address_is_set_nothing_leads_to_one():
    named = [path for path in SITE.rglob("*.html") if b"OWNER" in path.read_bytes()]
    assert named == []
    assert not (SITE / "sitemap.xml").exists()
    assert not (SITE / "404.html").exists()


def test_with_an_address_a_wrong_one_leads_to_the_book(monkeypatch):
    monkeypatch.setattr(repository, "address", lambda: ADDRESS)
    config = SimpleNamespace(html_title="The book", html_theme_options={}, html_additional_pages={})
    meta.find_address(None, config)
    assert config.html_baseurl == config.ogp_site_url == "https://somebody.github.io/some-book/"
    template = Environment(loader=FileSystemLoader(ROOT / "book/templates")).get_template(
        config.html_additional_pages["404"]
    )
    base = config.html_baseurl
    found = BeautifulSoup(template.render(pageurl=f"{base}404.html"), "html.parser").select("a")
    assert [link["href"] for link in found] == [f"{base}book/index.html", f"{base}search.html"]


def test_with_an_address_a_notebooks_row_of_links_goes_on_to_colab_and_to_its_text(monkeypatch):
    def row():
        document = nodes.document(None, None)
        document += nodes.paragraph("", "", nodes.reference("", "Paper", refuri="https://arxiv.org/abs/1"))
        app = SimpleNamespace(env=SimpleNamespace(docname="notebooks/01-transformer"))
        links.lead_out(app, document)
        return [link["refuri"] for link in document.findall(nodes.reference)]

    assert row() == ["https://arxiv.org/abs/1"]
    monkeypatch.setattr(repository, "address", lambda: ADDRESS)
    _, colab, text = row()
    assert (
        colab
        == f"https://colab.research.google.com/github/{repository.slug(ADDRESS)}/blob/main/notebooks/01-transformer.ipynb"
    )
    assert text == f"{ADDRESS}/blob/main/book/01-transformer.md"


def test_the_build_finds_links_that_lead_nowhere(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.html").write_text(
        '<p id="here"><a href="#here">x</a><a href="#gone">x</a><a href="../two.html#b%C3%A9">x</a>'
        '<a href="../two.html#c">x</a><img src="no.png"><a href="https://example.org/#no">x</a></p>'
        '<script>let x = \'<a href="none.html">\';</script><script src="gone.js"></script>'
    )
    (tmp_path / "two.html").write_text('<h1 id="bé">x</h1>')
    assert check.broken_links(tmp_path) == [
        "a/one.html: #gone",
        "a/one.html: ../two.html#c",
        "a/one.html: gone.js",
        "a/one.html: no.png",
    ]
