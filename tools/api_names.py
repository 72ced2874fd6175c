"""A Sphinx extension: every object of the API page is found by each name that a reader may use for it."""

from importlib import import_module
from typing import Any

PACKAGE = "efficient_transformers"


def add_module_paths(app: Any, env: Any) -> None:
    """What is documented as ``package.name`` also gets the name of its module, ``package.module.name``."""
    objects = env.get_domain("py").objects
    for name, entry in list(objects.items()):
        value: Any = import_module(PACKAGE)
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
        home = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
        if home.startswith(f"{PACKAGE}."):
            objects.setdefault(home, entry._replace(aliased=True))


def resolve_short_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A docstring's ``:func:`build_model` `` is a link in every module, as its reader expects."""
    domain, target = node.get("refdomain"), node.get("reftarget")
    if domain != "py" or "." in target:
        return None
    matches = [name for name, entry in env.get_domain("py").objects.items() if name.split(".")[-1] == target]
    if not matches:
        return None
    node["reftarget"] = min(matches, key=len)
    return env.get_domain("py").resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], node["reftarget"], node, contnode
    )


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-updated", add_module_paths, priority=400)  # before codeautolink reads the names, at 500
    app.connect("missing-reference", resolve_short_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
