"""The code of other tools: found on the page, all of it, and measured statement by statement."""

from attnflow_experiments import peers

TOOLS = ("captum", "inseq", "shap", "bertviz", "ContextCite", "TransformerLens")


def test_the_page_has_code_of_every_tool_and_the_same_here(pytestconfig):
    page = (pytestconfig.rootpath / "docs" / "coming-from.md").read_text(encoding="utf-8")
    found = peers.sections(page)
    assert [name for name, blocks in found.items() if blocks][1:] == list(TOOLS)
    for tool in TOOLS:
        theirs, ours = found[tool]
        assert "attnflow" not in theirs
        assert "attnflow." in ours


def test_statements_are_measured_where_they_take_time(capsys, monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr(peers.time, "process_time", lambda: next(ticks) / 10)
    names = {}
    peers.measure("one = 1\ntwo = one + 1", names)
    assert names["two"] == 2
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["  0.100 s  one = 1", "  0.100 s  two = one + 1"]
