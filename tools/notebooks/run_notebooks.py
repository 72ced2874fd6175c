"""Make notebooks/NAME.ipynb from book/NAME.md: execute, and write in a canonical form.

    python -m tools.notebooks.run_notebooks               # every chapter and study
    python -m tools.notebooks.run_notebooks 02-primer-ez  # one
    python -m tools.notebooks.run_notebooks --text NAME   # execute nothing: keep the outputs of code that is as it was
    python -m tools.notebooks.run_notebooks --check       # execute nothing: fail where text and notebook differ

A chapter is book/NN-name.md, a study book/studies/sN-name.md: what is numbered in it begins with N, or with SN.

Running twice without a change gives the same bytes, as far as the chapter's own outputs are the same. What the notebook
has and the text has not: outputs, and what `folding` derives.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from tqdm import tqdm

from tools.make import repository
from tools.notebooks import folding, pictures

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r" at 0x[0-9a-f]{6,16}")
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3", "file_extension": ".py"},
}
PANEL = "application/vnd.jupyter.widget-view+json"


def named(pattern: str) -> list[str]:
    book = ROOT / "book"
    return sorted(str(path.relative_to(book).with_suffix("")) for path in book.glob(pattern))


def chapters() -> list[str]:
    """Names of the chapters, from the files of book/."""
    return named("[0-9][0-9]-*.md")


def studies() -> list[str]:
    """Names of the studies, such as "studies/s1-strong-baseline", from the files of book/studies/."""
    return sorted(named("studies/s[1-9]*-*.md"), key=lambda name: int(number(name)[1:]))


def notebooks() -> list[str]:
    """Names of all that is executed: the chapters, then the studies."""
    return chapters() + studies()


def number(name: str) -> str:
    """What the numbers of a chapter's or a study's figures, tables and sections begin with: "4", or "S4"."""
    return Path(name).name.partition("-")[0].lstrip("0").upper()


def source(name: str) -> NotebookNode:
    """The chapter or study as a notebook without outputs."""
    notebook = jupytext.read(ROOT / "book" / f"{name}.md", fmt="md:myst")
    return canonical(notebook, name)


def canonical(notebook: NotebookNode, name: str) -> NotebookNode:
    """The same notebook without anything that differs from run to run."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    folding.unfold(notebook)
    count = 0
    for i, cell in enumerate(notebook.cells):
        cell.id = f"cell-{i:03d}"
        cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k in ("tags", "mystnb")})
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count if cell.outputs or cell.execution_count else None
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
            data = output.get("data", {})
            if "text/plain" in data:
                data["text/plain"] = ADDRESS.sub(" at 0xADDRESS", data["text/plain"])
            if "image/png" in data:
                data["image/png"] = pictures.small(data["image/png"])
        cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    folding.fold(notebook)
    if url := repository.known():
        notebook.cells[0].source += f"\n\n[This page in the book]({repository.site(url)}notebooks/{name}.html)"
    return notebook


def execute(name: str) -> None:
    """Run every cell, and write the notebook."""
    notebook = source(name)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # how often a kernel flushes depends on the machine
        resources={"metadata": {"path": str((ROOT / "notebooks" / name).parent)}},
    )
    client.comm_open_handlers["jupyter.widget"] = lambda message: None  # what is drawn in a panel is the cell's output
    with client.setup_kernel(env=os.environ | {"OMP_NUM_THREADS": "1"}):  # as in tests: conftest.py
        assert client.kc is not None  # as set up
        client.kc.execute(pictures.MEASURE, silent=True)
        for i, cell in enumerate(tqdm(notebook.cells, desc=name, unit="cell")):
            client.execute_cell(cell, i)
            # Only its own kernel can move a panel of ipywidgets: what that shows at first is stored, and no widget.
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if PANEL not in output.get("data", {})]
    notebook = canonical(notebook, name)
    pictures.write_vectors(pictures.take_vectors(notebook), number(name))
    write(notebook, name)


def execute_it(name: str) -> str:
    """The command that does."""
    return f"run `.venv/bin/python -m tools.notebooks.run_notebooks {name}`"


def bring_in_step(name: str) -> None:
    """Write the text as a notebook, each code cell with the outputs that the stored one has of the same code.

    Raises:
        ValueError: if a code cell is new or has changed: its outputs, and what follows from them, are to be executed.
    """
    notebook, stored = source(name), nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
    for each in (notebook, stored):
        folding.unfold(each)
    before, now = ([cell for cell in made.cells if cell.cell_type == "code"] for made in (stored, notebook))
    for cell in now:
        while before and before[0].source != cell.source:  # code that went
            before.pop(0)
        if not before:
            begins = cell.source.split("\n")[0]
            raise ValueError(f"{name}: the cell that begins {begins!r} is not the stored one; {execute_it(name)}")
        cell.outputs, cell.execution_count = before[0].outputs, before.pop(0).execution_count
    pictures.keep_vectors(notebook, stored, number(name))
    write(canonical(notebook, name), name)


def write(notebook: NotebookNode, name: str) -> None:
    path = ROOT / "notebooks" / f"{name}.ipynb"
    path.write_text(nbformat.writes(notebook).rstrip("\n") + "\n", encoding="utf-8")


def differences(name: str) -> list[str]:
    """What is wrong between a text and its notebook; empty when they agree."""
    path = ROOT / "notebooks" / f"{name}.ipynb"
    if not path.exists():
        return [f"{path.name} is missing; {execute_it(name)}"]
    stored = nbformat.read(path, 4)
    found = []
    if nbformat.writes(stored) != nbformat.writes(canonical(nbformat.read(path, 4), name)):
        found.append("the notebook is not in canonical form")
    never = sum(c.cell_type == "code" and c.execution_count is None for c in stored.cells)
    if folding.unfold(source(name)) != folding.unfold(stored):
        found.append(f"book/{name}.md and the notebook differ")
    if never:
        found.append(f"{never} code cells were never executed")
    return [f"{name}: {what}; {execute_it(name)}, or `make page {name}` if only sentences changed" for what in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="execute nothing")
    parser.add_argument("--text", action="store_true", help="execute nothing: only sentences changed")
    parser.add_argument("names", nargs="*", help=f"of {notebooks()}; by default all")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(notebooks())
    if unknown:
        parser.error(f"names is {sorted(unknown)}; expected some of {notebooks()}")
    problems = []
    for name in arguments.names or notebooks():
        problems += [f"{name}: {what}" for what in folding.fold(source(name))]  # a folded cell that nothing names
        if arguments.check:
            problems += differences(name)
        elif arguments.text:
            bring_in_step(name)
        else:
            execute(name)
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
