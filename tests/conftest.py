"""What all tests share: this tree's package, one thread, a fixed seed, properties that always try the same cases."""

import io
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from accelerate.state import AcceleratorState
from helpers import refuse_another_tree
from hypothesis import settings
from legible import small_letters

import efficient_transformers.__main__ as cli

settings.register_profile("package", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("long", derandomize=True, deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "package"))


def pytest_configure():
    refuse_another_tree(Path(__file__).parents[1])


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
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


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

    with sync_playwright() as playwright:
        instance = browser.launch(playwright)
        yield instance
        instance.close()
