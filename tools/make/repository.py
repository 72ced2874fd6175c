"""Write the repository's address wherever it stands: ``make repository URL=https://github.com/owner/name``.

The address of record is ``repository.url`` in _config.yml, from which the site makes all of its links. Others that know
no substitution follow it: the line of each notebook that installs the package, pyproject.toml, CITATION.cff, and a row
of links in README.md. While the owner is ``OWNER`` there is no address, and no link to it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
NOBODY = "/OWNER/"
ROW = re.compile(r"(<!-- links: make repository -->\n)(?:.+\n)?")  # in README.md


def address() -> str:
    """The address of record."""
    return str(yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"])


def known() -> str:
    """The address of record; empty while nobody owns it."""
    return "" if NOBODY in (found := address()) else found


def slug(url: str) -> str:
    """``owner/name`` of a GitHub address."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", url)
    if found is None:
        raise ValueError(f"URL is {url!r}; expected https://github.com/owner/name")
    return found[1]


def site(url: str) -> str:
    """Where GitHub Pages shows the repository with this address, with a slash at its end."""
    owner, name = slug(url).split("/")
    return f"https://{owner}.github.io/{name}/"


def colab(url: str, name: str) -> str:
    """Where Colab opens a notebook of the repository with this address."""
    return f"https://colab.research.google.com/github/{slug(url)}/blob/main/notebooks/{name}.ipynb"


def row(url: str) -> str:
    """The README's links to what is not in the repository; empty while nobody owns it."""
    if NOBODY in url:
        return ""
    links = {
        "Read the book": site(url),
        "Chapter 1 in Colab": colab(url, "01-transformer"),
        "Chapter 1 in Binder": f"https://mybinder.org/v2/gh/{slug(url)}/main?labpath=notebooks/01-transformer.ipynb",
    }
    return " · ".join(f"[{words}]({link})" for words, link in links.items()) + "\n"


def main() -> None:
    new, old = sys.argv[1], address()
    kinds = ("*.md", "*.ipynb", "*.toml", "*.cff", "*.yml", "*.py", ":!tests", ":!tools")
    listed = subprocess.run(["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in filter(Path.exists, map(ROOT.joinpath, listed.splitlines())):
        text = path.read_text(encoding="utf-8")
        changed = text.replace(f"github.com/{slug(old)}", f"github.com/{slug(new)}").replace(site(old), site(new))
        if path.name == "README.md":
            changed = ROW.sub(lambda m: m[1] + row(new), changed)
        if changed != text:
            path.write_text(changed, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
