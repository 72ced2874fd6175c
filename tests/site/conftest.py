"""The built book, for the tests of pages."""

import pytest

from tools.make import browser
from tools.make.screenshots import SITE


@pytest.fixture(scope="module")
def address():
    """Where the built book is served."""
    with browser.served(SITE) as where:
        yield where
