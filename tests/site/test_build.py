"""The site that these tests look at is what `make book` built, to its end: with a warning, it would not be ready."""

from __future__ import annotations

import pytest

from tools.make.screenshots import SITE


@pytest.mark.site
def test_the_last_build_of_the_site_ended_without_a_warning():
    ready, built = SITE.parent / "ready", SITE / "index.html"  # written by every build
    assert ready.exists(), "the build failed, or was not that of `make book`"
    assert built.stat().st_mtime <= ready.stat().st_mtime, (
        "built once more since, with a warning or without `make book`"
    )
