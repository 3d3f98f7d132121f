"""The command line: ``attnflow`` and ``python -m attnflow``.

One file per command. Heavy libraries are imported in the bodies of commands, so that ``--help`` and
completion answer at once.
"""

from attnflow.cli.app import main

__all__ = ["main"]
