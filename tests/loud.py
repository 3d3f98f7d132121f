"""The program and the library with one more option, which is declared here and nowhere else.

python tests/loud.py explain "a text" --volume 5

The declaration is put where a maintainer would write it: into the table of options, before anything
reads it.
"""

import sys
from importlib.util import find_spec, module_from_spec

TABLES = "attnflow.options.tables"
BEFORE = '    """How an input becomes tokens."""\n'
DECLARED = """
    volume: int = option(
        3, "How loud the result is.", "--volume N", least=1, served=True, described=True
    )
"""


def declare():
    """Import the table with the option in it."""
    assert TABLES not in sys.modules
    spec = find_spec(TABLES)
    source = spec.loader.get_source(TABLES)
    assert source.count(BEFORE) == 1
    module = sys.modules[TABLES] = module_from_spec(spec)
    exec(compile(source.replace(BEFORE, BEFORE + DECLARED), spec.origin, "exec"), vars(module))


if __name__ == "__main__":
    declare()
    from attnflow.cli.app import run

    sys.exit(run(sys.argv[1:]))
