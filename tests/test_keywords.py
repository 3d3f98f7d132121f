"""Names of arguments: a wrong one is refused with the right one, and signatures stay."""

import inspect

import numpy as np
import pytest

import attnflow
from attnflow.errors import InputError
from attnflow.io.keywords import known_keywords

FUNCTIONS = [name for name in attnflow.__all__ if inspect.isfunction(getattr(attnflow, name))]


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("evaluate", "method", "methods"),
        ("evaluate", "layer", "layers"),
        ("evaluate", "target", "target_column"),
        ("run", "method", "methods"),
        ("run", "target", "target_column"),
        ("run", "worker", "workers"),
        ("run", "word", "words"),
        ("explain", "methods", "method"),
        ("explain", "edge", "edges"),
        ("explain", "queries", "query"),
        ("routes", "targets", "target"),
        ("knockout", "edge", "edges"),
        ("flow", "query", "queries"),
        ("trace", "keys", "key"),
        ("similarity", "pool", "pooling"),
        ("fit", "text", "texts"),
        ("load_model", "devices", "device"),
    ],
)
def test_a_wrong_name_is_refused_with_the_right_one(name, given, meant):
    with pytest.raises(InputError) as refused:
        getattr(attnflow, name)(**{given: None})
    assert isinstance(refused.value, TypeError)
    message = str(refused.value)
    assert message.startswith(f"{name} has no argument {given!r}; did you mean {meant}=? allowed: ")


def test_a_name_like_no_other_is_refused_with_all():
    with pytest.raises(InputError, match="raw has no argument 'zzz'; allowed: attention, edges"):
        attnflow.raw(np.ones((1, 1, 2, 2)) / 2, zzz=1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_refuses_and_shows_its_own_signature(name):
    function = getattr(attnflow, name)
    with pytest.raises(InputError, match=f"{name} has no argument"):
        function(no_such_argument=1)
    assert "args" not in inspect.signature(function).parameters
    assert function.__doc__


def test_positional_arguments_and_what_is_missing_are_pythons_own():
    @known_keywords()
    def add(first, *, second=1):
        return first + second

    assert add(1, second=2) == 3
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        add()
    with pytest.raises(InputError, match="has no argument 'others'"):
        add(1, others=2)
