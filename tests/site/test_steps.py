"""The order of the site's steps is the order of their one list."""

from __future__ import annotations

import gc
import inspect
import pkgutil
from importlib import import_module
from types import SimpleNamespace

from tools import site


def test_sphinx_gets_the_steps_in_their_order_on_both_sides_of_what_others_do():
    connected: dict[str, list] = {}
    app = SimpleNamespace(
        connect=lambda event, step, priority: connected.setdefault(event, []).append((priority, step)),
        add_directive=lambda *_: None,
        add_html_math_renderer=lambda *_: None,
    )
    try:
        site.setup(app)
    finally:
        gc.enable()
    for event, steps in site.STEPS.items():
        calls = sorted([*connected[event], (500, site.others)], key=lambda call: call[0])
        assert [step for _, step in calls] == steps
        assert len({priority for priority, _ in calls}) == len(steps)
        # sphinx-codeautolink reads code at 490, the theme adds its buttons at 501, Sphinx resolves builtins at 900
        assert not any(480 < priority < 520 for priority, step in calls if step is not site.others)
        assert max(priority for priority, _ in calls) < 900


def test_every_function_that_is_called_by_sphinx_is_in_the_list():
    listed = {step for steps in site.STEPS.values() for step in steps}
    modules = [import_module(f"tools.site.{module.name}") for module in pkgutil.iter_modules(site.__path__)]
    found = {
        made
        for module in modules
        for made in vars(module).values()
        if inspect.isfunction(made)
        and made.__module__ == module.__name__
        and [*inspect.signature(made).parameters][:1] == ["app"]
    }
    assert len(found) > 20
    assert found == listed - {site.others}
