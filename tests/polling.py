"""Waiting for what a page, a server or a kernel will have done.

Playwright's own way evaluates strings in the page, which the policy of the book's pages forbids.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(there: Callable[[], Found], seconds: float = 10.0) -> Found:
    """What ``there()`` returns, once it is true."""
    end = time.monotonic() + seconds
    while not (found := there()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.1)
    return found
