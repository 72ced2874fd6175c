"""On the site: each page's Content-Security-Policy, by hashes of the scripts that the build wrote into it.

It allows these scripts and no others, so that there is no handler in an attribute: static/page.js has the theme's two.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

POLICY = (
    "default-src 'self'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'"
)
FINISHED = 'http-equiv="Content-Security-Policy"'  # of a page from an earlier build, whose last step this is
CHARSET = re.compile(r'<meta charset="utf-8"\s*/?>')
INLINE = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
HANDLER = re.compile(r' onclick="[^"]*"')


def with_policy(text: str) -> str:
    """The page with its policy: after the encoding, which must stand within the first 1,024 bytes."""
    text = HANDLER.sub("", text)
    hashes = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in INLINE.findall(text) if s.strip()}
    content = POLICY.format(hashes="".join(f" 'sha256-{h}'" for h in sorted(hashes)))
    place = CHARSET.search(text)
    end = place.end() if place else 0
    return f'{text[:end]}\n<meta http-equiv="Content-Security-Policy" content="{content}">\n{text[end:]}'


def write(app: Any) -> None:
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if FINISHED not in text:
            path.write_text(with_policy(text), encoding="utf-8")
