"""Long calls can show how far they are, on standard error only."""

import attention as some
import attnflow


def test_flow_shows_its_progress(capsys):
    attention = some.make("dense", 4, 8, seed=1)
    attnflow.flow(attention)
    assert capsys.readouterr() == ("", "")
    attnflow.flow(attention, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{attention.size}/{attention.size}" in shown.err
