"""One page of the site after a change of its text: ``make page NAME``, such as 02-primer-ez or glossary.

A chapter's or a study's notebook is brought in step with its text; then the last build goes on, which reads again only
what changed. What other pages say of this one, such as its title, is as it was until ``make book``.
"""

from __future__ import annotations

import io
import shutil
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

from jupyter_book.cli.main import main as jupyter_book

from tools.notebooks import run_notebooks

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "_build"


def page_of(name: str) -> str:
    """The page whose path ends with this; ValueError if that is none, or several."""
    notebooks = run_notebooks.notebooks()
    texts = [str(path.relative_to(ROOT / "book").with_suffix("")) for path in (ROOT / "book").rglob("*.md")]
    pages = [f"{'notebooks' if text in notebooks else 'book'}/{text}" for text in texts]
    found = [page for page in pages if f"/{page}".endswith(f"/{name}")]
    if len(found) != 1:
        raise ValueError(f"NAME is {name!r}; expected the end of one of {sorted(found or pages)}")
    return found[0]


def main() -> None:
    try:
        page = page_of("".join(sys.argv[1:]))
        if page.startswith("notebooks/"):
            run_notebooks.bring_in_step(page.removeprefix("notebooks/"))
    except ValueError as error:
        sys.exit(str(error))
    if not (BUILD / "html" / "_static" / "sections.js").exists():  # of a build that was cut short
        shutil.rmtree(BUILD / ".doctrees", ignore_errors=True)
    (BUILD / "ready").unlink(missing_ok=True)  # what `make test` looks at is built from nothing
    warnings.simplefilter("ignore", FutureWarning)  # sphinx-external-toc looks at every object of torch
    with redirect_stdout(io.StringIO()):  # warnings are told elsewhere
        jupyter_book(["build", str(ROOT), "-W", "-n", "--keep-going", "-q"], standalone_mode=False)
    print((BUILD / "html" / f"{page}.html").as_uri())


if __name__ == "__main__":
    main()
