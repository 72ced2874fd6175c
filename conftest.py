"""Defaults for ``pytest --nbval`` that hold from any folder."""

from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if getattr(option, "nbval", False) or getattr(option, "nbval_lax", False):
        if option.nbval_sanitize_with is None:
            option.nbval_sanitize_with = str(Path(__file__).parent / "tools" / "notebooks" / "nbval_sanitize.cfg")
        option.nbval_current_env = option.nbval_kernel_name is None
        if option.nbval_cell_timeout == 2000:
            option.nbval_cell_timeout = 300
