"""Browsers that look at the built book: shared by the tests of the site and the pictures."""

from __future__ import annotations

import gzip
import io
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright

WIDE, NARROW = 1280, 400  # CSS pixels: a laptop, a phone
# Folders of pages of one kind each, the inner folder first.
ONE_KIND = ("book/api/", "book/source/", "notebooks/studies/", "notebooks/")

FLAGS = ["--disable-gpu", "--disable-quic", "--font-render-hinting=none"]  # letters as far apart as with windows


def find() -> str | None:
    """The path of an installed Chromium or Chrome; one without windows takes half the processor time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=find(), args=FLAGS)


def pages(site: Path) -> list[str]:
    """Every page of the site, as a path below it."""
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if "_static" not in path.parts)


def one_of_each(pages: list[str]) -> list[str]:
    """The pages, but of those that are of one kind, the first alone."""
    made = {page: next((folder for folder in ONE_KIND if page.startswith(folder)), page) for page in pages}
    return list({template: page for page, template in reversed(made.items())}.values())


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


class CompressingHandler(QuietHandler):
    """Sends text compressed and keeps connections open, as the hosts of static sites do."""

    protocol_version = "HTTP/1.1"

    def send_head(self) -> io.BytesIO | None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return None
        body = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        if path.suffix in (".css", ".html", ".js", ".svg"):
            body = gzip.compress(body, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)


@contextmanager
def served(site: Path, handler: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """Serve the folder on a free local port; the address, without a slash at its end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def draw_all(tab: Page) -> None:
    """Have code and pictures below the window drawn, too, which otherwise wait until somebody scrolls there."""
    tab.add_style_tag(content="pre > .lines { content-visibility: visible !important; }")
    tab.evaluate("Promise.all([...document.images].map(e => { e.loading = 'eager'; return e.decode(); }))")


def visit(tab: Page, address: str) -> None:
    """Open a page and wait until its fonts are there."""
    tab.goto(address, wait_until="load")
    tab.evaluate("() => document.fonts.ready")
