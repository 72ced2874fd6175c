"""On the site: a docstring names an object of the package by its bare name, and that is a link."""

from __future__ import annotations

from typing import Any


def resolve_short_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A bare name in a docstring, such as :func:`build_model`, is a link in whatever module it stands."""
    domain, target = env.get_domain("py"), node.get("reftarget", "")
    if node.get("refdomain") != "py" or "." in target:
        return None
    matches = [name for name in domain.objects if name.split(".")[-1] == target]
    if not matches:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], min(matches, key=len), node, contnode)
