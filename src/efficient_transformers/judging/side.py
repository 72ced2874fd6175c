"""The two sides of a comparison: each a function that makes a model, wherever it comes from.

What is notable:
- a side is the name of a model of the book, a function, or a function in a file, which is executed;
- where the function takes ``n_layers``, its side can be tried at half the depth;
- a file may import what stands beside it, while it is executed; two files may have neighbors of one name;
- a checksum tells whether the file is still the same; what it imports is not looked at.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from ..layers.leaks import logits_of
from ..models.language_model import build_model, model_names
from ..support.checks import require

Build = Callable[..., nn.Module]


@dataclass(frozen=True)
class Side:
    """A model that takes part.

    Args:
        source: where it comes from: a name of :func:`model_names`, or a file or module and a function.
        build: makes it from a vocabulary size.
        n_layers: its depth, where that can be chosen; else None.
        checksum: of the file that the function is in; None for a model of the book, and for a function that is given.
    """

    source: str
    build: Build
    n_layers: int | None
    checksum: str | None

    @classmethod
    def of(cls, argument: str, what: str | Build) -> Side:
        """A side from a model's name, ``"file.py:function"``, or a function.

        Args:
            argument: what the caller named it, for messages.
            what: it.

        Raises:
            TypeError, ValueError: if it is none of these, or the file cannot be executed.
        """
        if what in model_names():
            model = str(what)
            config = build_model(model, vocab_size=2).config or {}
            depth = None if model == "hourglass" else config["n_layers"]  # a hierarchy has no one depth
            return cls(model, partial(build_named, model), depth, None)
        checksum = None
        if isinstance(what, str):
            source = what
            what, checksum = function_of(argument, what)
        else:
            is_model = isinstance(what, nn.Module)
            require(
                not is_model, argument, type(what).__name__, "a function that makes a new model each time", TypeError
            )
            expected = f"a function, 'file.py:function' or one of {model_names()}"
            require(callable(what), argument, what, expected, TypeError)
            source = f"{getattr(what, '__module__', '')}:{getattr(what, '__qualname__', type(what).__name__)}"
        signature = inspect.signature(what)
        known = {name: 1 for name in ("n_layers", "max_seq_len") if name in signature.parameters}
        try:
            signature.bind(1, **known)
        except TypeError as error:
            expected = "one that takes a vocabulary size, and nothing else without a default but n_layers, max_seq_len"
            raise TypeError(f"{argument} is {source}{signature}: {error}; expected {expected}") from error
        default = signature.parameters.get("n_layers")
        depth = default.default if default and isinstance(default.default, int) and default.default > 1 else None
        return cls(source, what, depth, checksum)

    @property
    def is_of_the_book(self) -> bool:
        """Whether it is a model that the book's own tests have looked at."""
        return isinstance(self.build, partial) and self.build.func is build_named

    def make(self, vocab_size: int, max_seq_len: int, **options: Any) -> nn.Module:
        """The model; told how long a text may be if it asks for that.

        Raises:
            ValueError: if the function fails, with what it says.
        """
        if self.is_of_the_book or "max_seq_len" in inspect.signature(self.build).parameters:
            options["max_seq_len"] = max_seq_len
        try:
            model = self.build(vocab_size, **options)
        except Exception as error:
            raise ValueError(f"{self.source} fails: {type(error).__name__}: {error}") from error
        if isinstance(model, nn.Module) and not self.is_of_the_book:
            model.register_forward_hook(lambda module, args, output: logits_of(output))
        return model


def build_named(model: str, vocab_size: int, **options: Any) -> nn.Module:
    """A model of the book, as a function of the vocabulary's size."""
    return build_model(model, vocab_size=vocab_size, **options)


def function_of(argument: str, path: str) -> tuple[Build, str]:
    """The function that ``"file.py:function"`` names, and the checksum of the file, which is executed.

    What the file imports from beside it is its own: no other file is given it, and the next execution imports it anew.

    Raises:
        ValueError: if there is no such file or function, or the file fails.
    """
    where, _, function = path.rpartition(":")
    file = Path(where)
    expected = f"one of {', '.join(model_names())}, or file.py:function"
    require(file.suffix == ".py" and file.is_file(), argument, path, expected)
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    spec = importlib.util.spec_from_file_location(f"{file.stem}_{checksum[:8]}", file)  # no other module's name
    assert spec is not None, "a file that was found"
    assert spec.loader is not None, "of a file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    beside, before = str(file.resolve().parent), set(sys.modules)
    sys.path.insert(0, beside)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{file} fails when it is executed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(beside)
        for name in set(sys.modules) - before:
            found_at = Path(getattr(sys.modules[name], "__file__", None) or "/")
            is_installed = "site-packages" in found_at.parts or name.partition(".")[0] in before
            if found_at.is_relative_to(beside) and not is_installed:
                del sys.modules[name]
    found = getattr(module, function, None)
    named = [name for name, value in vars(module).items() if inspect.isfunction(value)]
    require(callable(found), f"the function of {file}", function, f"one of its functions: {named}")
    return found, checksum  # type: ignore[return-value]
