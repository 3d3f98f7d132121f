import os

import pytest

from attnflow.errors import InputError
from attnflow.io.files import check_target


def test_what_may_be_written(tmp_path, monkeypatch):
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.touch()
    assert check_target(new, overwrite=False) == new
    assert check_target(str(old), overwrite=True) == old
    for place, said in (
        (old, r"exists; choose another name, or overwrite it with overwrite=True \(--force\)"),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "new.json", "create it first"),
    ):
        with pytest.raises(InputError, match=said):
            check_target(place, overwrite=False)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match="no permission"):
        check_target(new, overwrite=False)
