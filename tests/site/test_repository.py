"""The repository's address is the same wherever it stands, and `make repository` changes all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml
from helpers import refuse_another_tree
from packaging.specifiers import SpecifierSet

import efficient_transformers
from tools.make import repository

ROOT = Path(__file__).parents[2]

# Repositories of others that the chapters link to.
CITED = {"google-research/google-research", "google/trax", "karpathy/nanoGPT", "karpathy/nanochat"}
CITED |= {"MorionNa/civil-engineering-llm-wiki"}


def test_all_places_agree_with_the_address_of_record():
    wanted = repository.slug(repository.address())
    found = repository.occurrences()
    assert {slug for _, slug in found} - CITED == {wanted}
    places = {path.name for path, _ in found}
    assert {"README.md", "pyproject.toml", "CITATION.cff", "01-transformer.md", "01-transformer.ipynb"} <= places


def test_the_citation_has_the_packages_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == efficient_transformers.__version__


@pytest.fixture
def copy(tmp_path):
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    return tmp_path


def run(copy, url):
    command = [sys.executable, "-m", "tools.make.repository", url]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)


def test_make_repository_rewrites_every_place_and_back(copy):
    old = repository.address()
    assert run(copy, "https://github.com/somebody/some-book").returncode == 0
    texts = [p.read_text(encoding="utf-8") for p in copy.rglob("*") if p.suffix in (".md", ".ipynb", ".toml", ".cff")]
    assert not [t for t in texts if repository.slug(old) in t]
    assert "url: https://github.com/somebody/some-book\n" in (copy / "_config.yml").read_text(encoding="utf-8")
    assert run(copy, old).returncode == 0
    assert (copy / "README.md").read_text() == (ROOT / "README.md").read_text()


def test_what_is_not_an_address_is_refused(copy):
    refused = run(copy, "somebody/some-book")
    assert refused.returncode != 0
    assert "expected https://github.com/owner/name" in refused.stderr


def test_what_is_pinned_is_for_every_python_that_the_readme_names():
    """One package once asked for 3.11.5, which Debian 12 does not have."""
    pins = [line.partition("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    asked = {name: metadata(name)["Requires-Python"] or "" for name in pins}
    assert len(asked) > 100
    assert [name for name, pythons in asked.items() if "3.11.0" not in SpecifierSet(pythons)] == []


def test_a_package_or_results_of_another_tree_are_not_judged(tmp_path):
    with pytest.raises(pytest.UsageError, match=r"expected it in .*src: install this tree, by `pip install --editable"):
        refuse_another_tree(tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    for folder in ("experiments", "benchmarks"):
        shutil.copytree(ROOT / folder / "results", tmp_path / folder / "results")
    code = tmp_path / "src" / "efficient_transformers" / "__init__.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(efficient_transformers, "__file__", str(code))
        refuse_another_tree(tmp_path)
        with (tmp_path / "experiments" / "results" / "depth.jsonl").open("a") as file:
            file.write("{}\n")
        with pytest.raises(pytest.UsageError, match=r"recorded is .*, which has other results than .*experiments"):
            refuse_another_tree(tmp_path)
