"""Titles, metadata and sharp pictures follow from the text, and come off again."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from nbformat import v4
from PIL import Image

from efficient_transformers.book import guess
from efficient_transformers.book.explorer import few_colors
from tools.notebooks import folding, pictures

SETUP = "try:\n    import efficient_transformers\nexcept ModuleNotFoundError:\n    %pip install it"


def notebook(source, following=None, tags=("fold",)):
    cells = [v4.new_code_cell(source, metadata={"tags": list(tags)})]
    return v4.new_notebook(cells=cells + ([v4.new_markdown_cell(following)] if following else []))


@pytest.mark.parametrize(
    ("source", "following", "title"),
    [
        ("plt.show()", "**Figure 4.2.** A claim. How to read it.", "code of Figure 4.2"),
        ("assert x\nTable(a, b)", "**Table 4.1.** Words.", "code of Table 4.1"),
        ("assert a", None, "✓ checked: 1 assertion"),
        ("for x in y:\n    assert x\ntorch.testing.assert_close(a, b)", "Text.", "✓ checked: 2 assertions"),
        ("import torch\nfrom torch import nn\n_ = torch.manual_seed(0)", None, "imports"),
        ("from efficient_transformers import Cache\n_ = torch.manual_seed(0)", None, "imports from the package"),
        ("#@title the slow part\nassert a", "**Figure 4.2.** Words.", "the slow part"),
    ],
)
def test_a_folded_cell_gets_its_title_and_metadata(source, following, title):
    made = notebook(source, following)
    assert folding.fold(made) == []
    cell = made.cells[0]
    assert cell.source.startswith(f"#@title {title}\n")
    assert cell.metadata == {"tags": ["fold"], "cellView": "form", "jupyter": {"source_hidden": True}}
    again = nbformat.from_dict(made)
    assert folding.fold(again) == []
    assert again.cells[0] == cell, "twice is the same as once"
    assert folding.unfold(made)[0] == ("code", source, {"tags": ["fold"]})


def test_the_setup_cell_is_a_form_that_asks_for_sharp_pictures():
    made = notebook(SETUP, tags=("remove-cell",))
    assert folding.fold(made) == []
    cell = made.cells[0]
    assert cell.source == folding.SETUP + SETUP
    assert cell.source.startswith("#@title install what is missing\n%config InlineBackend")
    assert (cell.metadata["cellView"], cell.metadata["jupyter"]) == ("form", {"source_hidden": True})
    assert folding.unfold(made) == [("code", SETUP, {"tags": ["remove-cell"]})]


def test_what_a_reader_predicts_is_closed_until_the_next_text():
    note, text = (
        "Text.\n\nBefore you run the next cells: which is larger?",
        "The first. Before you move the slider: why?",
    )
    sources = ["x = 1", note, "#@title that x is true\nassert x", "x", text, "y"]
    made = v4.new_notebook(
        cells=[v4.new_markdown_cell(s) if s in (note, text) else v4.new_code_cell(s) for s in sources]
    )
    made.cells[2].metadata["tags"] = ["fold"]
    made.cells[3].outputs, png = [v4.new_output("stream", text="a < b\n")], encoded(np.zeros((4, 6, 3), np.uint8))
    drawn = {"image/png": base64.b64encode(png).decode(), "text/plain": "<Figure>"}
    made.cells[3].outputs.append(v4.new_output("display_data", drawn, metadata={"image/png": {"width": 3}}))
    before = nbformat.from_dict(made)
    folding.fold(made)
    marked = ["#@title that x is true\n# guess first\nassert x", "# guess first\nx"]
    assert [cell.source for cell in made.cells] == ["x = 1", note, *marked, text, "y"]
    (output,) = made.cells[3].outputs
    assert output.data["text/html"] == (
        "<details><summary>Guess first, then open</summary>\n\n<pre>a &lt; b</pre>\n\n"
        f'<img alt="{guess.TOLD}" width="3" src="data:image/png;base64,{drawn["image/png"]}">\n\n</details>'
    )
    assert output.data["text/plain"] == "a < b\n<Figure>"
    folding.unfold(made)
    assert made.cells == before.cells


def test_a_marked_cell_closes_what_it_gives_shows_an_error_and_is_compared(tmp_path):
    sources = ["%load_ext efficient_transformers.book.guess", "# guess first\nprint('a < b')\n42"]
    sources += ["# guess first\nprint('so far')\n1 / 0", "43"]
    made = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    NotebookClient(made, kernel_name="python3", allow_errors=True).execute()
    _, closed, wrong, after = (cell.outputs for cell in made.cells)
    assert [output.data for output in closed] == [
        guess.closed([({"text/plain": "a < b"}, {}), ({"text/plain": "42"}, {})])[0]
    ]
    assert sorted(output.output_type for output in wrong) == ["error", "stream"]
    assert after[0].data == {"text/plain": "43"}
    made.cells[2] = nbformat.from_dict(made.cells[1])
    made.cells[2].id, made.cells[2].source = (
        "wrong",
        made.cells[2].source.replace("42", "41"),
    )  # what it gives is no more what is stored
    nbformat.write(made, tmp_path / "made.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider", "-q", "-rA"]
    ran = subprocess.run([*command, "made.ipynb"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.findall(r"^([A-Z]+) \S+::Cell (\d)", ran.stdout, re.MULTILINE) == [
        ("PASSED", "0"), ("PASSED", "1"), ("PASSED", "3"), ("FAILED", "2")
    ]  # fmt: skip


def encoded(pixels):
    drawn = io.BytesIO()
    Image.fromarray(pixels).save(drawn, "png")
    return drawn.getvalue()


@pytest.mark.parametrize("channels", [3, 4])
def test_pictures_get_a_palette_once_and_keep_transparency(channels):
    pixels = np.full((40, 60, channels), 255, np.uint8)
    pixels[10:20, :, 0] = np.arange(60)
    if channels == 4:
        pixels[:10, :, 3] = 0
    first = pictures.small(base64.b64encode(encoded(pixels)).decode())
    assert pictures.small(first) == first
    seen = np.asarray(Image.open(io.BytesIO(base64.b64decode(first))).convert("RGBA"))
    assert (seen[:10, :, 3] == (0 if channels == 4 else 255)).all()
    assert np.abs(seen[15, :, :3].astype(int) - pixels[15, :, :3]).max() <= 16
    assert first == base64.b64encode(few_colors(encoded(pixels))).decode()
