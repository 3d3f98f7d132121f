"""Families of named things: the built-in ones, and those that users register.

Everything that offers a choice (keywords, command line, server, page) reads the family, so that a
registered member works everywhere by its name.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from attnflow.errors import InputError

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Named(Protocol):
    """Something with a name."""

    @property
    def name(self) -> str:
        """The name that users write."""


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Members by name, in the order in which they were registered.

    Args:
        option: What the choice is called where users make it, for errors.
        modules: The built-in members: a name, and the module that defines it as ``MEMBER`` (or
            ``module:NAME``). They are imported when they are used, so that names can be listed at
            once.
    """

    def __init__(self, option: str, modules: Mapping[str, str]) -> None:
        self.option = option
        self._members: dict[str, T | str] = dict(modules)

    def register(self, member: T) -> T:
        """Add a member; its name must be free."""
        if not NAME.fullmatch(member.name):
            msg = (
                f"{self.option}={member.name!r} can't be registered: a name has lower-case letters "
                "and digits, with hyphens between them"
            )
            raise InputError(msg)
        if member.name in self._members:
            msg = f"{self.option}={member.name!r} is registered already; choose another name"
            raise InputError(msg)
        self._members[member.name] = member
        return member

    def unregister(self, name: str) -> None:
        """Remove a member."""
        del self._members[self[name].name]

    def __getitem__(self, name: object) -> T:
        if not isinstance(name, str) or name not in self._members:
            msg = f"{self.option}={name!r} is unknown; allowed: one of {', '.join(self)}"
            raise InputError(msg)
        member = self._members[name]
        if isinstance(member, str):
            module, _, attribute = member.partition(":")
            member = self._members[name] = getattr(
                importlib.import_module(module), attribute or "MEMBER"
            )
        return member

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._members))

    def __len__(self) -> int:
        return len(self._members)

    def members(self) -> tuple[T, ...]:
        """All members, in order."""
        return tuple(self[name] for name in self)


def load_plugin(module: str) -> None:
    """Import a module of the user's, or a file such as ``my_rules.py``, which registers members.

    Modules are found in the current folder, too.
    """
    path = Path(module)
    folder, name = (path.parent, path.stem) if path.suffix == ".py" else (Path(), module)
    sys.path.insert(0, str(folder.absolute()))
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # the module exists, and something that it needs does not
        msg = f"plugin {module!r} can't be found; name a module or a file, such as my_rules.py"
        raise InputError(msg) from error
    finally:
        sys.path.remove(str(folder.absolute()))
