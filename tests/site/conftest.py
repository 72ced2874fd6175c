"""A browser and the built book, for the tests of pages."""

import pytest
from playwright.sync_api import sync_playwright

from tools.make import browser
from tools.make.screenshots import SITE


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        instance = browser.launch(playwright)
        yield instance
        instance.close()


@pytest.fixture(scope="module")
def address():
    """Where the built book is served."""
    with browser.served(SITE) as where:
        yield where
