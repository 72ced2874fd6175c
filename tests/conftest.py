"""What all tests share: this tree's package, one thread, a fixed seed, properties that always try the same cases.

With requirements.txt alone, or without a built book, a test that asks for more is skipped, all of them in one line;
``make test``, which has it all, sets EVERYTHING, and there a skipped test fails, but for want of what it cannot bring.
"""

import io
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from helpers import refuse_another_tree
from hypothesis import settings
from legible import small_letters

import efficient_transformers.__main__ as cli

settings.register_profile("package", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("long", derandomize=True, deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "package"))


ROOT = Path(__file__).parents[1]
# Of requirements-dev.txt, by the names that are imported.
OPTIONAL = {
    "accelerate",
    "axe_playwright_python",
    "grimp",
    "nh3",
    "playwright",
    "selenium",
    "transformers",
    "x_transformers",
}
WITHOUT_PACKAGES = "tests of pages, types and lint, and of what is optional, want more packages: run `make test`"
WITHOUT_SITE = "no built book: run `make test`"
BEYOND = re.compile("Chromium|Firefox|GPU|Linux|history")  # that a checkout or a machine may lack in any case


def pytest_configure():
    refuse_another_tree(ROOT)


def left_out(report, call, path):
    """Skip what asked for an optional package that is not there, and where there is no browser's, all of tests/site."""
    if "EVERYTHING" in os.environ:
        if report.skipped and not BEYOND.search(str(report.longrepr)):
            report.outcome = "failed"
        return report
    error = call.excinfo and call.excinfo.value
    while error and not (isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in OPTIONAL):
        error = error.__cause__ or error.__context__
    of_pages = path.parent == ROOT / "tests" / "site" and find_spec("playwright") is None
    if error or of_pages:
        report.outcome, report.longrepr = "skipped", (__file__, None, WITHOUT_PACKAGES)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    return left_out(report, report.call, collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return left_out((yield), call, item.path)


def pytest_runtest_setup(item):
    if item.get_closest_marker("site") and not (ROOT / "_build" / "html" / "index.html").exists():  # a build's last
        pytest.skip(WITHOUT_SITE)


@pytest.fixture(autouse=True)
def one_thread_and_one_seed():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False  # on a GPU, convolutions would be rounded to 10 bits
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def on_the_cpu(monkeypatch):
    """The same numbers on every machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def drawn():
    """What a test has drawn is no wider than a page, has no small text, an index included, and is closed."""
    yield
    figures = [plt.figure(number) for number in plt.get_fignums()]
    for figure in figures:
        figure.savefig(io.BytesIO(), dpi=30)
    plt.close("all")
    for figure in figures:
        assert figure.get_figwidth() <= 5.6
        assert small_letters(figure) == []


@pytest.fixture
def command(monkeypatch, capsys):
    """Call ``main`` as the shell would; its exit code, stdout and stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["efficient_transformers", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as leave:
            code = leave.code or 0
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def chromium():
    """A browser, for tests of pages and of notebooks."""
    from playwright.sync_api import sync_playwright  # the tests of the package alone do without it

    from tools.make import browser

    if browser.find() is None:
        pytest.skip("no Chromium or Chrome on the PATH")
    with sync_playwright() as playwright:
        instance = browser.launch(playwright)
        yield instance
        instance.close()
