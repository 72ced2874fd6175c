"""For tests and notebooks alike: what ``pytest --nbval`` takes for granted in any folder, and what runs first."""

import os
from pathlib import Path

import pytest

# Before torch is imported, and for the kernels of notebooks: two threads on a busy machine wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if getattr(option, "nbval", False) or getattr(option, "nbval_lax", False):
        if option.nbval_sanitize_with is None:
            option.nbval_sanitize_with = str(Path(__file__).parent / "tools" / "notebooks" / "nbval_sanitize.cfg")
        option.nbval_current_env = option.nbval_kernel_name is None
        if not hasattr(config, "workerinput"):
            from efficient_transformers import load_corpus  # not for tests that no notebook is among

            load_corpus()  # the first time it fetches the plays and says so, which no stored output does


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Notebooks first, then files with slow tests or pages, so that no process is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("site")}

    def rank(item: pytest.Item) -> int:
        return 0 if item.path.suffix == ".ipynb" else 1 if item.path in slow else 2

    items.sort(key=rank)
