"""The command line: ``attnflow`` and ``python -m attnflow``.

One file per command, listed in `app`. What several share: the options (`options`, and those of
answers, data sets, figures and models), `parsing` and `inputs` of what is given, `running` of
sessions, `status`, `help` and `errors`. Heavy libraries are imported in the bodies of commands, so
that ``--help`` and completion answer at once.
"""


def main() -> None:
    """Run the program."""
    from attnflow.cli.app import main as run  # which imports every command

    run()
