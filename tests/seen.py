"""What a browser shows, read back; and its controls, moved."""

import numpy as np


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


def slide(page, name, value):
    page.eval_on_selector(
        f"#{name}", "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value
    )


def found_token(page, at):
    return page.locator(".token").nth(at).text_content()
