"""Families of named things: the built-in ones, and those that users register.

Everything that offers a choice (keywords, command line, server, page) reads the family, so that a
registered member works everywhere by its name.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from attnflow.errors import AttnflowError, InputError, unknown

PACKAGE = "attnflow"
PLAIN = int | float | str
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class RegistryMember(Protocol):
    """Something with a name."""

    @property
    def name(self) -> str:
        """The name that users write."""


T = TypeVar("T", bound=RegistryMember)


class Registry(Generic[T]):
    """Members by name, in the order in which they were registered.

    Args:
        option: What the choice is called where users make it, for errors.
        kind: The name of the members' class; several are separated by "or".
        modules: The built-in members: a name, and the module that defines it as ``MEMBER`` (or
            ``module:NAME``). They are imported when they are used, so that names can be listed at
            once.
    """

    def __init__(self, option: str, kind: str, modules: Mapping[str, str]) -> None:
        self.option = option
        self.kind = kind
        self._members: dict[str, T | str] = dict(modules)

    def register(self, member: T) -> T:
        """Add a member; its name must be free."""
        if type(member).__name__ not in self.kind.split(" or "):
            found = type(member).__name__
            msg = f"{self.option}: {found} can't be registered; it must be of {self.kind}"
            raise InputError(msg)
        if not NAME.fullmatch(member.name):
            msg = (
                f"{self.option}={member.name!r} can't be registered: a name has lower-case letters "
                "and digits, with hyphens between them"
            )
            raise InputError(msg)
        if member.name == "auto":
            msg = f"{self.option}='auto' stands for the default; choose another name"
            raise InputError(msg)
        if member.name in self._members:
            msg = (
                f"{self.option}={member.name!r} is registered already; choose another name, or "
                "unregister it first"
            )
            raise InputError(msg)
        self._members[member.name] = member
        return member

    def unregister(self, name: str) -> None:
        """Remove a member."""
        del self._members[self[name].name]

    def __getitem__(self, name: object) -> T:
        if not isinstance(name, str) or name not in self._members:
            raise InputError(unknown(self.option, name, self))
        member = self._members[name]
        if isinstance(member, str):
            module, _, attribute = member.partition(":")
            member = self._members[name] = getattr(
                importlib.import_module(module), attribute or "MEMBER"
            )
        return member

    def get(self, name: object) -> T | None:
        """The member of that name, if there is one."""
        if name not in self:
            return None
        return self[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._members))

    def __len__(self) -> int:
        return len(self._members)

    def members(self) -> tuple[T, ...]:
        """All members, in order."""
        return tuple(self[name] for name in self)


def code_digest(member: object) -> str:
    """The SHA-256 of the files in which a member's functions are written; empty for built-in ones.

    Of functions without a file, as in a notebook, it is that of their own source or byte code.
    """
    seen: dict[str, bytes] = {}
    for each in fields(member):  # type: ignore[arg-type] # members are dataclasses
        function = getattr(member, each.name)
        while isinstance(function, partial):
            function = function.func
        if not callable(function):
            continue
        written = function if hasattr(function, "__code__") else type(function)
        if written.__module__.partition(".")[0] != PACKAGE:
            seen[each.name] = _code(written)
    if not seen:
        return ""
    return hashlib.sha256(b"".join(seen[name] for name in sorted(seen))).hexdigest()


def _code(written: Any) -> bytes:
    try:
        file = Path(inspect.getsourcefile(written) or "")
        return file.read_bytes() if file.is_file() else inspect.getsource(written).encode()
    except (TypeError, OSError):
        code = getattr(written, "__code__", None)
        constants = [each for each in getattr(code, "co_consts", ()) if isinstance(each, PLAIN)]
        parts = (written.__qualname__, getattr(code, "co_code", b""), constants)
        return repr(parts).encode()


def is_foreign(code: Any) -> bool:
    """Whether a member's function comes from outside: it may write into what it is given."""
    written = code.func if isinstance(code, partial) else code
    return str(getattr(written, "__module__", "")).partition(".")[0] != PACKAGE


@contextmanager
def name_failure(member: str) -> Iterator[None]:
    """Errors of a member's own code come with its name; the library's own stay as they are."""
    try:
        yield
    except AttnflowError:
        raise
    except (
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        ArithmeticError,
        NameError,
    ) as error:
        msg = f"{member} failed in its own code: {type(error).__name__}: {error}"
        raise InputError(msg) from error


def load_plugin(module: str) -> None:
    """Import a module of the user's, or a file such as ``my_rules.py``, which registers members.

    Modules are found in the current folder, too.
    """
    try:
        if Path(module).is_file():
            _import_file(Path(module))
        else:
            _import_module(module)
    except InputError as error:
        msg = f"plugin {module!r} failed: {error}"
        raise InputError(msg) from error
    except Exception as error:
        msg = f"plugin {module!r} failed: {type(error).__name__}: {error}"
        raise InputError(msg) from error


def _import_file(path: Path) -> None:
    """Run a file as a module of its own, once: files of the same name differ by their folder."""
    name = f"attnflow_plugin_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_loader(name, SourceFileLoader(name, str(path)))
    if spec is None or spec.loader is None:  # it never is, with a loader given
        raise AssertionError
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _found_here(path.resolve().parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _import_module(name: str) -> None:
    if not name or not all(part.isidentifier() for part in name.split(".")):
        msg = "it is neither a file nor the name of a module, such as my_rules.py or my_rules"
        raise InputError(msg)
    with _found_here(Path()):
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            msg = (
                "it can't be found; name a file, such as my_rules.py, or a module on Python's path"
            )
            raise InputError(msg)
        importlib.import_module(name)


@contextmanager
def _found_here(folder: Path) -> Iterator[None]:
    """While it lasts, modules are found in a folder first."""
    place = str(folder.absolute())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
