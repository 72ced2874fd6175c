"""A first visit on a slow machine and a slow line: whether lines move, and how much is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.make import browser

SITE = Path(__file__).parents[2] / "_build" / "html"
LINE = {"offline": False, "latency": 40, "downloadThroughput": 1.6e6, "uploadThroughput": 1.6e6}  # ms, bytes a second
FIRST, REQUESTS, ALL = 500_000, 30, 650_000  # bytes on the wire before scrolling; requests; bytes at the end
SHIFT = 0.02  # Chromium's layout shift
WATCH = """
window.shift = 0;
new PerformanceObserver(list => list.getEntries().forEach(e => { if (!e.hadRecentInput) shift += e.value; }))
    .observe({type: "layout-shift", buffered: true});
"""

pytestmark = pytest.mark.site


@pytest.mark.parametrize("width", [390, pytest.param(1440, marks=pytest.mark.long)])
def test_a_first_visit_is_steady_and_light(chromium, width):
    """With an empty cache, without and with scrolling."""
    tab, loaded = chromium.new_page(viewport={"width": width, "height": 900}), {}
    session = tab.context.new_cdp_session(tab)
    session.on("Network.loadingFinished", lambda e: loaded.setdefault(e["requestId"], e["encodedDataLength"]))
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", LINE)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    tab.add_init_script(WATCH)
    with browser.served(SITE, browser.CompressingHandler) as address:
        tab.goto(f"{address}/notebooks/05-gmlp.html", wait_until="networkidle")
        assert 100_000 < sum(loaded.values()) <= FIRST
        assert len([size for size in loaded.values() if size]) <= REQUESTS
        session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
        for place in range(0, tab.evaluate("document.documentElement.scrollHeight"), 900):
            tab.evaluate("y => scrollTo(0, y)", place)
            tab.wait_for_timeout(20)
        tab.wait_for_load_state("networkidle")
        assert sum(loaded.values()) <= ALL
        assert tab.evaluate("shift") < SHIFT
        tab.close()
