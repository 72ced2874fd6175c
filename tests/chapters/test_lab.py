"""The notebooks as a reader of JupyterLab has them: opened untrusted, trusted, run, saved, and opened again."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from functools import partial

import nbformat
import pytest
from polling import until

from tools.make import lab

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not lab.PROGRAM.exists(), reason="`make test-lab` installs JupyterLab"),
]
PATIENCE = 120_000  # milliseconds: a busy machine opens a notebook in 20 seconds
patiently = partial(until, seconds=PATIENCE / 1000)
LOST = "text=Error displaying widget"
A_BAR = """_ = train(build_model("transformer", vocab_size=79, n_layers=1), load_corpus(),
          TrainingConfig(steps=2, batch_size=1, seq_len=8, eval_batches=1))"""


def beginning():
    """Chapter 4 up to its panel of ipywidgets, and a training with its bar."""
    notebook = nbformat.read(lab.ROOT / "notebooks" / "04-hourglass.ipynb", 4)
    last = next(i for i, cell in enumerate(notebook.cells) if "interact(" in cell.source)
    notebook.cells[last + 1 :] = [nbformat.v4.new_code_cell(A_BAR, id="bar")]
    return notebook


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """What JupyterLab serves: notebooks that nobody trusts in ``new``, and the copy that ``make lab`` makes."""
    home = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("OMP_NUM_THREADS", "1")
        quiet = home / "jupyter_config_dir/lab/user-settings/@jupyterlab/apputils-extension"
        quiet.mkdir(parents=True)
        (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
        (home / "new").mkdir()
        nbformat.write(beginning(), home / "new" / "begin.ipynb")
        lab.copy(home / "mine")
        lab.save_panels()
        yield home


@pytest.fixture(scope="module")
def server(home):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", f"--ServerApp.port={port}", "--IdentityProvider.token="]
    options.append("--ServerApp.disable_check_xsrf=True")  # the test ends a kernel without a browser
    log = (home / "log.txt").open("w")
    process = subprocess.Popen([lab.PROGRAM, *options, f"--ServerApp.root_dir={home}"], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"

    def answers():
        assert process.poll() is None, (home / "log.txt").read_text()
        try:
            return urllib.request.urlopen(f"{address}/api/status")
        except OSError:
            return None

    patiently(answers)
    yield address
    process.terminate()
    process.wait()


@pytest.fixture
def visit(chromium, server):
    """Open a notebook; a page of its own each time."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE)

    def visit(path):
        page.goto(f"{server}/lab/tree/{path}?reset")
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        return page

    yield visit
    page.close()


def seen(page, selector):
    """The first such element, once it is in sight: JupyterLab draws what is near."""
    found = page.locator(selector).first

    def in_sight():
        page.mouse.move(700, 500)
        page.mouse.wheel(0, 0 if found.is_visible() else 300)
        return found.is_visible()

    patiently(in_sight)
    found.scroll_into_view_if_needed()
    return found


def moved_by_a_key(root, shown):
    """Whether the right arrow, on the last slider of an element, changes what is shown."""
    before = shown()
    root.locator("input[type=range]").last.press("ArrowRight")
    return shown() != before


def test_opened_untrusted_a_figure_has_one_frame_an_instrument_its_still_and_a_guess_is_closed(visit):
    page = visit("new/begin.ipynb")
    guess = seen(page, 'summary:text-is("Guess first, then open")')
    answer = page.locator("details:has-text('Guess first') pre").first
    assert not answer.is_visible()
    guess.click()
    assert answer.is_visible()
    explorer = seen(page, ".explorer")
    assert explorer.locator("img").count() == 1
    assert explorer.locator("img").bounding_box()["height"] > 100
    assert "Here: factor 4." in explorer.locator("img").get_attribute("alt")
    assert explorer.locator("input").count() == 0
    instrument = seen(page, ".leak-lab")
    patiently(lambda: "run this cell to touch it" in instrument.inner_text())
    assert instrument.locator("input").count() == 0
    assert instrument.locator("img").bounding_box()["height"] > 100
    panel = seen(page, '.jp-CodeCell:has-text("interact(") .jp-OutputArea-output img')
    assert panel.bounding_box()["height"] > 100, "its picture"
    assert page.locator(LOST).count() == 0


def test_trusted_figures_and_instruments_move_without_a_kernel_that_ran(visit):
    page = visit("mine/04-hourglass.ipynb")
    explorer = seen(page, ".explorer")
    assert explorer.locator("input").count() == 1
    assert moved_by_a_key(explorer, lambda: explorer.locator("img").get_attribute("src"))
    assert "Here: factor 8." in explorer.locator("img").get_attribute("alt")
    instrument = seen(page, ".leak-lab")
    assert moved_by_a_key(instrument, lambda: instrument.locator("p").inner_text())
    assert not instrument.locator("a").is_visible()
    assert page.locator(LOST).count() == 0
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    assert page.locator(".jp-mod-dirty").count() == 0, "what was only opened need not be saved"


def test_run_saved_and_opened_again_no_figure_is_lost(visit, home, server):
    page, path = visit("new/begin.ipynb"), home / "new" / "begin.ipynb"
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()  # what is run before that is forgotten
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    seen(page, "text=2/2")  # the bar
    seen(page, ".jp-Notebook .jp-CodeCell")
    panel = seen(page, ".widget-interact")
    picture = panel.locator("img")
    picture.wait_for()
    before = picture.get_attribute("src")
    panel.locator(".noUi-handle").last.press("ArrowRight")
    patiently(lambda: picture.get_attribute("src") != before)
    moved = picture.get_attribute("src")
    assert panel.locator(".widget-readout").all_inner_texts() == ["4", "3"]
    page.keyboard.press("Control+s")

    def saved():
        try:
            notebook = nbformat.read(path, 4)
        except nbformat.reader.NotJSONError:  # it is being written
            return None
        return notebook if notebook.cells[-1].outputs else None

    stored = patiently(saved)
    assert re.search(r"2/2 .*loss", json.dumps(stored.cells[-1].outputs))
    assert "application/vnd.jupyter.widget-state+json" in stored.metadata.widgets

    for kernel in json.load(urllib.request.urlopen(f"{server}/api/kernels")):
        urllib.request.urlopen(urllib.request.Request(f"{server}/api/kernels/{kernel['id']}", method="DELETE"))
    page = visit("new/begin.ipynb")
    explorer = seen(page, ".explorer")
    assert moved_by_a_key(explorer, lambda: explorer.locator("img").get_attribute("src"))
    assert seen(page, ".leak-lab").locator("input").count() > 0
    assert seen(page, ".widget-interact img").get_attribute("src") == moved, "the panel as it was left"
    assert page.locator(LOST).count() == 0
