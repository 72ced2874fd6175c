"""Write a conf.py for plain Sphinx from _config.yml, so that the book does not need Jupyter Book to be built.

    python -m tools.make.sphinx_conf FOLDER      # writes FOLDER/conf.py

Jupyter Book 1 reads _config.yml, fills in its defaults, and calls Sphinx. So does this, for the settings that this book
has; a section or a setting of _config.yml that it does not know is an error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
NOT_HERE = {"jupyter_book", "sphinx_comments"}  # extensions that Jupyter Book brings: of no use to this book
DEFAULTS: dict[str, Any] = {  # of Jupyter Book
    "html_theme": "sphinx_book_theme",
    "html_sourcelink_suffix": "",
    "pygments_style": "sphinx",
    "suppress_warnings": ["myst.domains"],
    "external_toc_path": str(ROOT / "_toc.yml"),
    "myst_url_schemes": ["mailto", "http", "https"],
}


def taken(section: dict[str, Any], *names: str) -> list[Any]:
    """The values of these names, and nothing must be left."""
    values = [section.pop(name, None) for name in names]
    if section:
        raise ValueError(f"_config.yml has {sorted(section)} where only {sorted(names)} are known")
    return values


def settings() -> dict[str, Any]:
    """The names and values of conf.py."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    sections = ("title", "author", "copyright", "only_build_toc_files", "exclude_patterns", "execute", "parse")
    more = ("bibtex_bibfiles", "repository", "launch_buttons", "html", "latex", "sphinx")
    (
        title,
        author,
        copyright_,
        only_toc,
        exclude,
        execute,
        parse,
        bibliographies,
        repository,
        launch,
        html,
        _,
        sphinx,
    ) = taken(config, *sections, *more)
    mode, stderr = taken(execute, "execute_notebooks", "stderr_output")
    (markdown,) = taken(parse, "myst_enable_extensions")
    url, branch, path = taken(repository, "url", "branch", "path_to_book")
    buttons = ("use_edit_page_button", "use_repository_button", "use_issues_button")
    favicon, home, *use = taken(html, "favicon", "home_page_in_navbar", *buttons)
    local, _, own = taken(sphinx, "local_extensions", "recursive_update", "config")
    theme = {
        "repository_url": url,
        "repository_branch": branch,
        "path_to_docs": path,
        "launch_buttons": launch,
        "home_page_in_toc": home,
        "search_bar_text": "Search this book...",
        **dict(zip(buttons, use, strict=True)),
        **own.pop("html_theme_options"),
    }
    made = {
        **DEFAULTS,
        "project": title,
        "html_title": title,
        "author": author,
        "copyright": copyright_,
        "external_toc_exclude_missing": only_toc,
        "exclude_patterns": exclude,
        "nb_execution_mode": mode,
        "nb_output_stderr": stderr,
        "myst_enable_extensions": markdown,
        "bibtex_bibfiles": [str(ROOT / file) for file in bibliographies],  # conf.py is elsewhere
        "html_favicon": str(ROOT / favicon),
        "html_theme_options": theme,
        **own,
    }
    made["extensions"] = [name for name in own["extensions"] if name not in NOT_HERE]
    made["html_static_path"] = [str(ROOT / folder) for folder in own["html_static_path"]]
    # Sphinx 9 looks for "dict[str" where an attribute is a dict[str, Any].
    made["nitpick_ignore_regex"] = [*own["nitpick_ignore_regex"], ["py:class", r"(dict|tuple)\[\w+"]]
    return {**made, "local": [str(ROOT / folder) for folder in local.values()]}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    made = settings()
    lines = ["import sys", "", f"sys.path[:0] = {made.pop('local')!r}"]
    lines += [f"{name} = {value!r}" for name, value in sorted(made.items())]
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conf.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
