"""Old addresses lead to where things are now: from a disk, with scripts and without."""

from __future__ import annotations

import pytest

from tools.make.screenshots import SITE
from tools.site import check, finish, moved

OLD, NEW = "notebooks/01-transformer.html", "notebooks/studies/s1-strong-baseline.html"


@pytest.fixture
def table(monkeypatch):
    """A table made up for these tests: a part that moved, and a page."""
    made = {f"{OLD}#gone": f"{NEW}#tab-s1-2", "notebooks/01-old-name.html": NEW}
    monkeypatch.setattr(moved, "TABLE", made)
    return made


def test_a_note_has_the_old_anchor_and_leads_to_the_new_one(table):
    note = moved.notes(OLD, '<p id="here">')
    assert '<p id="gone">' in note
    assert 'href="studies/s1-strong-baseline.html#tab-s1-2"' in note
    assert moved.notes("notebooks/02-primer-ez.html", "") == ""


def test_an_anchor_that_is_still_there_is_refused(table):
    with pytest.raises(ValueError, match=r"01-transformer\.html#gone; expected an anchor that the page no longer has"):
        moved.notes(OLD, '<p id="gone">')


def test_an_entry_that_is_no_address_is_refused(table):
    table["Table 1.5"] = NEW
    with pytest.raises(ValueError, match=r"'Table 1\.5'; expected an address such as"):
        moved.notes(OLD, "")


class App:
    def __init__(self, folder):
        self.outdir, self.builder = folder, type("Builder", (), {"name": "html"})


@pytest.fixture
def site(table, tmp_path):
    """A small site of two pages of the built one, with what the table adds."""
    (tmp_path / "notebooks" / "studies").mkdir(parents=True)
    (tmp_path / "_static").symlink_to(SITE / "_static")
    for page in (OLD, NEW):
        text = (SITE / page).read_text(encoding="utf-8")
        (tmp_path / page).write_text(
            text.replace("</article>", f"{moved.notes(page, text)}</article>"), encoding="utf-8"
        )
    moved.write_pages(App(tmp_path), None)
    page = tmp_path / "notebooks" / "01-old-name.html"
    page.write_text(finish.policy(page.read_text(encoding="utf-8")), encoding="utf-8")
    return tmp_path


@pytest.mark.site
@pytest.mark.parametrize(
    ("asked", "reached"),
    [
        (f"{OLD}#gone", f"{NEW}#tab-s1-2"),
        ("notebooks/01-old-name.html", NEW),
        ("notebooks/01-old-name.html#fig-s1-1", f"{NEW}#fig-s1-1"),
    ],
)
def test_an_old_address_leads_on_from_a_disk(chromium, site, asked, reached):
    tab = chromium.new_page()
    tab.goto(f"{site.as_uri()}/{asked}")
    tab.wait_for_url(f"{site.as_uri()}/{reached}")
    tab.close()


@pytest.mark.site
def test_without_a_script_the_note_is_seen_by_who_asks_for_it(chromium, site):
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{site.as_uri()}/{OLD}")
    note = tab.locator(".moved #gone")
    assert not note.is_visible()
    tab.goto(f"{site.as_uri()}/{OLD}#gone")
    assert note.is_visible()
    note.locator("a").click()
    tab.wait_for_url(f"{site.as_uri()}/{NEW}#tab-s1-2")
    tab.goto(f"{site.as_uri()}/notebooks/01-old-name.html")
    tab.wait_for_url(f"{site.as_uri()}/{NEW}")
    context.close()


@pytest.mark.site
def test_a_target_that_is_not_there_is_a_broken_link(table, site):
    table[f"{OLD}#also"] = f"{NEW}#nowhere"
    text = (site / OLD).read_text(encoding="utf-8")
    (site / OLD).write_text(text + moved.notes(OLD, ""), encoding="utf-8")
    assert f"{OLD}: studies/s1-strong-baseline.html#nowhere" in check.broken_links(site)


@pytest.mark.site
def test_a_page_that_is_still_there_is_refused_and_one_of_the_build_before_is_written_again(table, site):
    moved.write_pages(App(site), None)
    (site / "notebooks/01-old-name.html").write_text((site / NEW).read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"01-old-name\.html'; expected a page that is no longer there"):
        moved.write_pages(App(site), None)
