"""The page of citations: markers lead to what is quoted, and sentences without one are flagged."""

import pytest

import cited

pytestmark = pytest.mark.browser


def test_a_marker_shows_what_is_quoted(tab, tmp_path):
    found = cited.record(warnings=("mind the gap",))
    tab.goto(found.explore().save(tmp_path / "view.html").as_uri())
    tab.wait_for_selector(".cited-answer")
    assert tab.inner_text(".cited .finding").lower() == f"{found.summary}.".lower()
    assert tab.locator(".cited-flag").all_inner_texts() == ["no source", "no single source"]
    assert tab.locator(".cited-list li").all_inner_texts() == [
        line.partition("] ")[2] for line in str(found).splitlines() if line[:1] == "["
    ]
    assert "Mind the gap." in tab.inner_text(".cited")
    assert tab.locator(".cited h3").all_inner_texts() == [
        "mill\ncitations 1, 2",
        "guide\ncitation 1",
        "<b>menu</b>\ncitation 3",
    ]
    tab.locator(".cited-mark").nth(0).click()
    assert tab.locator("mark.chosen").all_inner_texts() == ["Ada built it.", "Ada built the mill."]
    tab.locator(".cited mark").nth(2).click()
    assert tab.locator("mark.chosen").all_inner_texts() == ["Soup is 5."]
    assert tab.locator(".cited-mark.chosen").all_inner_texts() == ["3"]
    assert tab.is_hidden("#generation")
    assert tab.is_hidden("#link")
