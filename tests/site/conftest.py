"""The built book and its tabs, for the tests of pages."""

import pytest


@pytest.fixture(scope="module")
def address():
    """Where the built book is served."""
    from tools.make import browser, screenshots  # Playwright, without which these tests are skipped

    with browser.served(screenshots.SITE) as where:
        yield where


@pytest.fixture
def visit(chromium):
    """Open a page in a tab of its own, which must not complain; ``asked`` is what it loaded."""
    from tools.make import browser

    tabs = []

    def open_tab(address, script="", errors_expected=False, clock=False, **options):
        context = chromium.new_context(**options)
        tab, complaints = context.new_page(), []
        if script:
            tab.add_init_script(script)
        if clock:  # the test's own
            tab.clock.install()
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        tab.asked = []
        tab.on("request", lambda request: tab.asked.append(request.url))
        browser.visit(tab, address)
        tabs.append((context, complaints, errors_expected))
        return tab

    yield open_tab
    for context, complaints, errors_expected in tabs:
        context.close()
        assert errors_expected or not complaints, complaints
