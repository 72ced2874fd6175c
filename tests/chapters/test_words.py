"""Results are questions: the words of verdicts stand nowhere else in chapters, studies, landing page and README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROSE = [
    ROOT / "README.md",
    *sorted((ROOT / "book").glob("[0-9]*.md")),
    *sorted((ROOT / "book" / "studies").glob("*.md")),
    *(ROOT / "book" / name for name in ("index.md", "landing.yml", "how-we-compare.md", "what-did-not-work.md")),
]
CODE = re.compile(r"^```\{code-cell\}.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
UNWANTED = re.compile(
    r"\bend(?:s|ed|ing)? (?:up )?(?:\S+ )?(?:lower|higher|lowest|highest|level)\b|\btold apart\b|\bnot sure(?:ly)?\b"
    r"|\b(?:is|are) not seen to\b|\bin its time\b|\bin that of\b|\bfrom open gates\b|\b[Tt]o take along\b"
    r"|\b[Cc]laim card\b"
)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_no_verdict_stands_outside_a_question(path):
    found = [m[0] for m in UNWANTED.finditer(CODE.sub("", path.read_text(encoding="utf-8")))]
    assert found == []


def test_no_answer_has_them_either():
    text = (ROOT / "src/efficient_transformers/book/results.yml").read_text(encoding="utf-8")
    for says in yaml.safe_load(text)["questions"].values():
        assert not UNWANTED.search(says["question"] + says["answer"] + says.get("expected", ""))
