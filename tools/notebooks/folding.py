"""What a cell keeps closed: its code, with one tag, ``fold``; its output, below a note "Before you run ...".

What is notable:
- the text of a chapter carries the tag and the note alone; `fold` writes, into the notebook, the title line that a
  folded cell shows and what Colab and JupyterLab want, and `unfold` takes both away again;
- a title is made from what is there, the caption after the cell, its assertions, its imports, so it is never stale;
- what a reader is asked to predict is closed until they open it, as after a run: efficient_transformers.book.guess;
- the words of a picture for those who cannot see it stand in the text for MyST-NB; nbconvert's classic template reads
  them in the cell, where they stay when a reader runs it (its other template, and JupyterLab, show none);
- doing it twice is the same as doing it once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import unescape
from itertools import pairwise

from nbformat import NotebookNode
from nbformat.v4 import new_output

from efficient_transformers.book import guess, results

NUMBER = r"S?\d+\.\d+"  # of a thing in a chapter, 4.2, or in a study, S4.2
TITLE = re.compile(r"#@title (.+)\n")
CAPTION = re.compile(
    rf"(?:{guess.OPENS})?\*\*(?P<name>(?P<kind>Figure|Table) (?P<number>{NUMBER}))\.\*\*\s+(?P<words>\S[^\n]*)"
)
MADE = re.compile(
    rf"#@title (code of (Figure|Table) {NUMBER}|✓ checked: \d+ assertions?|imports( from the package)?)\n"
)
OURS = re.compile(r"efficient_transformers\b")
PREDICTION = re.compile(r"\bBefore you (run|look)\b")
ASKED = re.compile(r'^(?:# guess first\n)?results\.answer\("([^"]+)"\)$')
MAGIC = re.compile(r"^(\s*)[%!].*$", re.MULTILINE)
# The first cell, which the site leaves out. Matplotlib draws for screens with two dots per pixel; here, so that Colab's
# readers have it too.
SETUP = """#@title install what is missing
%config InlineBackend.figure_formats = ["retina"]  # sharp pictures
"""
TELLS = re.compile(rf"\A{guess.OPENS}(\*\*(?:Figure|Table) .+){guess.CLOSES}")  # a caption that `fold` closed
PAGE = re.compile(r"\n\n\[This page in the book\]\(\S+\)$")  # after the title, once the book has an address
GUESSES = "\n%load_ext efficient_transformers.book.guess"  # its last line, where a reader is asked to predict
PIECE = re.compile(
    r'<pre>(?P<text>.*?)</pre>|<img alt="[^"]*" width="[^"]*" src="data:image/png;base64,(?P<png>[^"]+)">', re.DOTALL
)


def tree(source: str) -> ast.Module:
    """The syntax tree of a cell; magics become `pass`."""
    return ast.parse(MAGIC.sub(r"\1pass", source))


def assertions(source: str) -> int:
    """How many stand in the cell, ``torch.testing.assert_close`` and its like included."""
    nodes = ast.walk(tree(source))
    return sum(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1].startswith("assert_"))
        for node in nodes
    )


def only_imports(source: str) -> bool:
    """Whether the cell imports, and at most seeds a generator besides."""
    statements = tree(source).body
    rest = [s for s in statements if not isinstance(s, (ast.Import, ast.ImportFrom))]
    return len(rest) < len(statements) and all("manual_seed" in ast.unparse(s) for s in rest)


def anchor(caption: re.Match[str]) -> str:
    """Where the site puts a picture or table with this caption: ``fig-4-2``, ``tab-s1-2``."""
    return f"{caption['kind'][:3]}-{caption['number'].replace('.', '-')}".lower()


def captioned(notebook: NotebookNode) -> Iterator[tuple[NotebookNode, re.Match[str] | None]]:
    """Each cell but the last, with the caption that follows, if one does."""
    for cell, following in pairwise(notebook.cells):
        yield cell, CAPTION.match(following.source.lstrip())


def is_folded(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and "fold" in cell.metadata.get("tags", [])


def predicted(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """The code cells whose outputs a reader predicts: those between a text with "Before you run ..." and the next."""
    asked = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if asked and "\ncheck(" not in cell.source:  # of an exercise: what the check says is no answer
                yield cell
        elif cell.cell_type == "markdown":
            asked = bool(PREDICTION.search(cell.source))


def made_title(source: str, following: str) -> str | None:
    """What a cell with this source, before a cell with that text, is called; None if an author has to say it."""
    if caption := CAPTION.match(following.lstrip()):
        return f"code of {caption['name']}"
    if count := assertions(source):
        return f"✓ checked: {count} assertion{'s' * (count > 1)}"
    if not only_imports(source):
        return None
    body = tree(source).body
    ours = all(s.module and OURS.match(s.module) for s in body if isinstance(s, ast.ImportFrom))
    return "imports from the package" if ours and not any(isinstance(s, ast.Import) for s in body) else "imports"


def asked(source: str) -> str | None:
    """The name of the question that a cell asks and does nothing else."""
    call = ASKED.match(source.strip())
    return call[1] if call else None


def close(cell: NotebookNode) -> None:
    """Mark a cell whose output a reader predicts, and close that; one that was run and gave nothing stays as it is."""
    if cell.execution_count and not cell.outputs:
        return
    title = TITLE.match(cell.source)
    start = title.end() if title else 0
    cell.source = f"{cell.source[:start]}# guess first\n{cell.source[start:]}"
    if cell.outputs:
        given = [(o.get("data") or {"text/plain": o.text.rstrip("\n")}, o.get("metadata", {})) for o in cell.outputs]
        data, metadata = guess.closed(given, cell.metadata.get("alt", guess.TOLD))
        cell.outputs = [new_output("display_data", data, metadata=metadata)]


def opened(output: NotebookNode) -> list[NotebookNode]:
    """What an output closes, each as it was, where printed text and a value become the same; else the output."""
    kind = next((kind for kind, what in output.get("data", {}).items() if str(what).startswith(guess.OPENS)), None)
    if kind is None:
        return [output]
    inside = output.data[kind].removeprefix(guess.OPENS).removesuffix(guess.CLOSES)
    plain, found = output.data["text/plain"], []
    for piece in PIECE.finditer(inside):
        if piece["png"]:
            data = {"image/png": piece["png"], "text/plain": plain}
            found.append(new_output("display_data", data, metadata=output.metadata))
        else:
            text = unescape(piece["text"]) + "\n"
            plain = plain.removeprefix(text)
            found.append(new_output("stream", name="stdout", text=text))
    return found or [new_output("display_data", {kind: inside, "text/plain": plain}, metadata=output.metadata)]


def open_guesses(notebook: NotebookNode) -> None:
    """Take away what `close` did; ``predicted`` in a cell's metadata is left of it."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = TELLS.sub(r"\1", cell.source)
        elif guess.MARK.match(cell.source):
            cell.metadata["predicted"] = True
            cell.source = guess.MARK.sub(r"\1", cell.source)
            cell.outputs = [each for output in cell.outputs for each in opened(output)]


def fold(notebook: NotebookNode) -> list[str]:
    """Derive titles, metadata, the setup cell's ends, and what closes a guess; what is wrong, if anything is."""
    unfold(notebook)
    wrong = []
    for cell, following in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        if name := asked(cell.source):
            cell.metadata["mystnb"] = {"image": {"alt": results.find(name).picture}}
        if alt := cell.metadata.get("mystnb", {}).get("image", {}).get("alt"):
            cell.metadata["alt"] = alt  # nbconvert
        is_setup = cell.cell_type == "code" and "%pip" in cell.source
        if is_setup:
            cell.source = SETUP + cell.source + GUESSES * any(True for _ in predicted(notebook))
        if not (is_setup or is_folded(cell)):
            continue
        cell.metadata["cellView"] = "form"  # Colab
        cell.metadata.setdefault("jupyter", {})["source_hidden"] = True  # JupyterLab
        if TITLE.match(cell.source):
            continue
        title = made_title(cell.source, following.source if following else "")
        if title:
            cell.source = f"#@title {title}\n{cell.source}"
        else:
            wrong.append(
                f"the folded cell that begins with {cell.source.splitlines()[0]!r} needs a first line '#@title ...': "
                "no caption stands after it, and it neither asserts nor only imports"
            )
    told = {id(cell): following for cell, following in pairwise(notebook.cells) if CAPTION.match(following.source)}
    for cell in predicted(notebook):
        close(cell)
        if id(cell) in told:
            caption, *rest = told[id(cell)].source.split("\n\n", 1)
            told[id(cell)].source = "\n\n".join([guess.OPENS + caption + guess.CLOSES, *rest])
    return wrong


def unfold(notebook: NotebookNode) -> list[tuple[str, str, NotebookNode]]:
    """Take away what `fold` wrote; an author's own title stays. Kind, source and metadata of each cell are left."""
    open_guesses(notebook)
    notebook.cells[0].source = PAGE.sub("", notebook.cells[0].source)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = cell.source.removeprefix(SETUP).removesuffix(GUESSES)
            if is_folded(cell) and (title := MADE.match(cell.source)):
                cell.source = cell.source[title.end() :]
            for name in ("alt", "cellView", "jupyter", "predicted", *(["mystnb"] if asked(cell.source) else [])):
                cell.metadata.pop(name, None)
    return [(cell.cell_type, cell.source, cell.metadata) for cell in notebook.cells]
