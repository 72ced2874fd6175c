"""What lies around the book: its address, the same wherever it stands; what is released; what can be made."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

import efficient_transformers
from tools.make import repository
from tools.notebooks import run_notebooks

ROOT = Path(__file__).parents[2]

# Where an address stands; each but the first follows it by `make repository`.
PLACES = {"_config.yml", "pyproject.toml", "CITATION.cff"}


def test_the_address_stands_in_few_places_and_each_agrees_with_that_of_record():
    placeholder = repository.slug(repository.address()).encode()
    named = {name for name in tracked() if placeholder in (ROOT / name).read_bytes()}
    texts = {name for name in named if re.match(r"book/(studies/)?s?\d.*\.md$|notebooks/.*\.ipynb$", name)}
    assert (named - texts, len(texts)) == (PLACES, 2 * len(run_notebooks.notebooks()))


def test_the_citation_has_the_packages_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == efficient_transformers.__version__
    assert f"version = {{{efficient_transformers.__version__}}}" in read("book/how-to-read.md")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def tracked(*patterns):
    """The files of the repository, or those below some folders or of some patterns."""
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


@pytest.fixture
def copy(tmp_path):
    for name in tracked():
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
    assert [name for name in tracked() if repository.slug(old).encode() in (copy / name).read_bytes()] == []
    assert "url: https://github.com/somebody/some-book\n" in (copy / "_config.yml").read_text(encoding="utf-8")
    readme = (copy / "README.md").read_text()
    assert "](https://somebody.github.io/some-book/)" in readme
    assert "https://mybinder.org/v2/gh/somebody/some-book/main" in readme
    assert run(copy, old).returncode == 0
    for name in tracked():
        assert (copy / name).read_bytes() == (ROOT / name).read_bytes()


def test_what_is_not_an_address_is_refused(copy):
    refused = run(copy, "somebody/some-book")
    assert refused.returncode != 0
    assert "expected https://github.com/owner/name" in refused.stderr


def pins():
    """What constraints.txt names, each with its version."""
    return dict(line.split("==") for line in read("constraints.txt").splitlines())


def test_what_is_pinned_is_for_every_python_that_the_readme_names():
    """One package once asked for 3.11.5, which Debian 12 does not have."""
    asked = {name: metadata(name)["Requires-Python"] or "" for name in pins()}
    assert [name for name, pythons in asked.items() if "3.11.0" not in SpecifierSet(pythons)] == []


# What is released

BUILD = "from setuptools import build_meta; build_meta.build_sdist('dist'); build_meta.build_wheel('dist')"


def test_a_release_has_every_file_of_the_package_and_no_test_without_its_tools(copy):
    built = subprocess.run([sys.executable, "-c", BUILD], cwd=copy, capture_output=True, text=True, check=True)
    assert "would be ignored" not in built.stdout + built.stderr  # a later setuptools leaves such files out
    (sdist,), (wheel,) = (copy / "dist").glob("*.tar.gz"), (copy / "dist").glob("*.whl")
    shutil.unpack_archive(sdist, copy / "dist")
    shutil.unpack_archive(wheel, copy / "dist" / "wheel", "zip")
    sources = copy / "dist" / sdist.name.removesuffix(".tar.gz")
    project = tomllib.loads(read("pyproject.toml"))
    for package, folder in project["tool"]["setuptools"]["package-dir"].items():
        installed = copy / "dist" / "wheel" / package.replace(".", "/")
        for name in tracked(folder):
            assert (sources / name).read_bytes() == (ROOT / name).read_bytes()
            assert (installed / Path(name).relative_to(folder)).read_bytes() == (ROOT / name).read_bytes()
    assert not (sources / "tests").exists()
