"""Inputs that several files of tests read."""

import pytest

import heard


@pytest.fixture(scope="session")
def sound():
    """One second of noise that swells and fades."""
    return heard.sound()
