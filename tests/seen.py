"""What a browser shows, read back; and its controls, moved."""

from pathlib import Path

import numpy as np
import pytest

AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"

TEXT = "the old keys to the cabinets are here"
OTHER = "the old key to the cabinets is here"


def strip(page):
    return np.array(page.eval_on_selector_all(".token", "all => all.map(t => +t.dataset.value)"))


def drawn(page, name, amount="amount"):
    """What is drawn: from "step/query/key" to its amount."""
    settle(page)
    pairs = page.eval_on_selector_all(
        f".graph [data-{name}]", f"all => all.map(e => [e.dataset.{name}, +e.dataset.{amount}])"
    )
    return {tuple(map(int, edge.split("/"))): value for edge, value in pairs}


def settle(page):
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def faded(page):
    """Wait until colours that fade in are there; one that changes meanwhile starts anew."""
    settle(page)
    page.evaluate(
        """async () => {
            for (let running; (running = document.getAnimations()).length;)
                await Promise.allSettled(running.map((each) => each.finished));
        }"""
    )


def slide(page, name, value):
    page.eval_on_selector(
        f"#{name}", "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value
    )


def found_token(page, at):
    return page.locator(".token").nth(at).text_content()


def violations(page):
    """What axe-core finds wrong with the page."""
    if not AXE.exists():
        pytest.fail("axe-core is missing: run scripts/check-page install")
    faded(page)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
    return [
        (each["id"], node["target"], node["failureSummary"])
        for each in found["violations"]
        for node in each["nodes"]
    ]
