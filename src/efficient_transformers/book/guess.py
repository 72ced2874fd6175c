"""A guess that stays a guess: what a cell with the line ``# guess first`` gives is closed until a reader opens it.

What is notable:
- ``%load_ext efficient_transformers.book.guess`` makes it so; without that the line is a comment like any other;
- one output takes the place of all that the cell gave, a ``<details>``, which JupyterLab, Colab and GitHub close
  without a script; its plain text is theirs, for programs that compare or read aloud;
- an error is shown as it is, and so is what came before it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html import escape
from typing import Any

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output

__all__ = ["closed"]

MARK = re.compile(r"\A(#@title .+\n)?# guess first\n")
OPENS, CLOSES = "<details><summary>Guess first, then open</summary>\n\n", "\n\n</details>"
TOLD = "A picture; the text after this cell says what it shows"
Bundle = dict[str, Any]


def shown(data: Bundle, metadata: Bundle, alt: str) -> str:
    """One output as a piece of HTML or Markdown."""
    for kind in ("text/html", "text/markdown"):
        if kind in data:
            return data[kind]
    if "image/png" in data:
        width, png = metadata.get("image/png", {}).get("width", "auto"), "".join(data["image/png"].split())
        return f'<img alt="{escape(alt)}" width="{width}" src="data:image/png;base64,{png}">'
    return f"<pre>{escape(data['text/plain'], quote=False)}</pre>"


def closed(outputs: Sequence[tuple[Bundle, Bundle]], alt: str = TOLD) -> tuple[Bundle, Bundle]:
    """One output in the place of some: the data and the metadata of each, and of what closes them.

    Args:
        outputs: what a cell gave.
        alt: what its pictures show, in words.
    """
    pieces = "\n\n".join(shown(data, metadata, alt) for data, metadata in outputs)
    kind = "text/markdown" if any("text/markdown" in data for data, _ in outputs) else "text/html"
    plain = "\n".join(data["text/plain"] for data, _ in outputs)
    about = {key: value for _, metadata in outputs for key, value in metadata.items()}
    return {kind: OPENS + pieces + CLOSES, "text/plain": plain}, about


class Closing:
    """Holds back what a marked cell gives, from its beginning to its end."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell, self.capture = shell, capture_output(stderr=False)
        self.held: Any = None

    def begin(self, info: ExecutionInfo) -> None:
        if MARK.match(info.raw_cell or ""):
            self.held = self.capture.__enter__()
            self.shell.display_trap.hook = sys.displayhook  # which IPython would set to its own

    def end(self, result: ExecutionResult | None) -> None:
        if self.held is None:
            return
        self.capture.__exit__(None, None, None)
        self.shell.display_trap.hook = self.shell.displayhook
        held, self.held = self.held, None
        if result is None or not result.success:
            held.show()
            return
        printed: list[tuple[Bundle, Bundle]] = [({"text/plain": held.stdout.rstrip("\n")}, {})] if held.stdout else []
        if outputs := printed + [(output.data, output.metadata or {}) for output in held.outputs]:
            data, metadata = closed(outputs)
            self.shell.display_pub.publish(data, metadata)


def load_ipython_extension(shell: InteractiveShell) -> None:
    closing = Closing(shell)
    shell.events.register("pre_run_cell", closing.begin)
    shell.events.register("post_run_cell", closing.end)
