"""The book's studies, declared before their runs: see ../README.md."""

from __future__ import annotations

from efficient_transformers.protocol import Study

from .head_to_head import HEAD_TO_HEAD, LENGTHS, LONG, SIZES

# In the order of their runs. What has to be cut is cut from the end.
STUDIES: dict[str, Study] = {study.name: study for study in (HEAD_TO_HEAD, LENGTHS, LONG, SIZES)}
