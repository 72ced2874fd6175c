"""A Sphinx extension for the pages on which models run: the models that ship, and their weights as scripts.

Weights become script files, which a page that was opened from a disk can load, and which nothing loads before a
reader asks: ``_static/weights/NAME.js`` calls ``model_arrived`` with config, vocabulary and weights in base64.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from efficient_transformers.models import pretrained, saving
from efficient_transformers.support.tables import Table
from efficient_transformers.training.runs import VOCABULARY

PAGES = ("book/write-with-it", "book/read-with-it")
SCRIPTS = ("models.js", "model-worker.js", "model-parts.js", "model-page.js")
FOLDER = "weights"
TITLES = {
    "transformer": "Transformer",
    "primer-ez": "Primer EZ",
    "primer": "Primer",
    "hourglass": "Hourglass",
    "gmlp": "gMLP",
    "dense-gmlp": "dense gMLP",
    "amlp": "aMLP",
}


def shipped() -> list[str]:
    """The names of the models that ship, in the order of the book."""
    return sorted(pretrained.pretrained_names(), key=[*TITLES].index)


def weights_of(name: str) -> Path:
    return Path(pretrained.SHIPPED / name / saving.WEIGHTS)


def megabytes(name: str) -> str:
    return f"{weights_of(name).stat().st_size / 1e6:.1f} MB"


def options(names: Iterable[str] = ()) -> str:
    """Models, by default all that ship, as the options of a menu, each with how many characters it reads."""
    made = []
    for name in names or shipped():
        config = json.loads((pretrained.SHIPPED / name / saving.CONFIG).read_text(encoding="utf-8"))
        words = f"{html.escape(TITLES[name])} ({megabytes(name)})"
        made.append(f'<option value="{name}" data-context="{config["max_seq_len"]}">{words}</option>')
    return "".join(made)


def table() -> str:
    """What a reader should know of each model; the numbers are those of its card."""
    cards = [(name, pretrained.pretrained_card(name)) for name in shipped()]
    rows = [
        (TITLES[name], f"{c['parameters']:,}", f"{c['validation_loss']:.3f}", f"{c['test_loss']:.3f}", megabytes(name))
        for name, c in cards
    ]
    made = Table(("model", "parameters", "validation loss", "test loss", "weights"), rows)
    return f'<div class="pst-scrollable-table-container">{made._repr_html_()}</div>'


def as_script(folder: Path) -> str:
    """A model's folder as a script."""
    model = {
        "config": json.loads((folder / saving.CONFIG).read_text(encoding="utf-8")),
        "vocabulary": json.loads((folder / VOCABULARY).read_text(encoding="utf-8")),
        "weights": base64.b64encode((folder / saving.WEIGHTS).read_bytes()).decode(),
    }
    return f"model_arrived({json.dumps(folder.name)}, {json.dumps(model)});\n"


def write_weights(app: Any) -> None:
    """The models that ship, as scripts beside the pages."""
    folder = Path(app.outdir) / "_static" / FOLDER
    folder.mkdir(exist_ok=True)
    for name in shipped():
        (folder / f"{name}.js").write_text(as_script(pretrained.SHIPPED / name), encoding="utf-8")
