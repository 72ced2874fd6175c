"""One page of the site after a change of its text: ``make page NAME``, such as 02-primer-ez, glossary or api/attention.

A chapter's or a study's notebook is brought in step with its text; then the last build goes on, which reads again only
what changed. What other pages say of this one, such as its title, is as it was until ``make book``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.notebooks import run_notebooks

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "_build"


def page_of(name: str) -> str:
    """The page whose path ends with this.

    Raises:
        ValueError: if that is none, or several.
    """
    pages = re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    found = [page for page in pages if f"/{page}".endswith(f"/{name}")]
    if len(found) != 1:
        raise ValueError(f"NAME is {name!r}; expected the end of one of {found or pages}")
    return found[0]


def main() -> None:
    try:
        page = page_of("".join(sys.argv[1:]))
        if page.startswith("notebooks/"):
            run_notebooks.bring_in_step(page.removeprefix("notebooks/"))
    except ValueError as error:
        sys.exit(str(error))
    (BUILD / "ready").unlink(missing_ok=True)  # what `make test` looks at is built from nothing
    book = Path(sys.executable).with_name("jupyter-book")
    command = [book, "build", ROOT, "-W", "-n", "--keep-going", "-q"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    print((BUILD / "html" / f"{page}.html").as_uri())
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
