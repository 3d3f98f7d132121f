"""For the site: functions that take a table of options are shown with its keywords.

The site is built without torch, so that functions are read and not imported; the table is light.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from attnflow.options import tables
from attnflow.options.option import document, has_default, options_of


class OptionsInDocs(griffe.Extension):
    """Puts the options of a table into the signature and the documentation of its function."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Do so where a decorator names a table."""
        named = [re.search(r"\((\w+Options)\)", str(each.value)) for each in func.decorators]
        found = next((match[1] for match in named if match), None)
        if found is None or "options" not in func.parameters:
            return
        declared = options_of(getattr(tables, found)).values()
        having = [one for one in declared if func.name not in one[1].not_for]
        del func.parameters["options"]
        for each, _known in having:
            func.parameters.add(
                griffe.Parameter(
                    each.name,
                    annotation=str(each.type),
                    kind=griffe.ParameterKind.keyword_only,
                    default=repr(each.default) if has_default(each) else None,
                )
            )
        if func.docstring is not None:
            func.docstring.value = document(func.docstring.value, having)
