"""The page that lists the texts of a run; each opens in the explorer."""

from __future__ import annotations

import math
from html import escape
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import FastAPI, Query
from starlette.responses import HTMLResponse

from attnflow.views.explorer.listing import Entry, Listing

ON_A_PAGE = 50
MOST_ERRORS = 50
MOST_SHOWN = 300  # characters of a text
ORDERS = ("disagreement", "row")
PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>{title} · attnflow</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="static/style.css" />
  </head>
  <body>
    <header class="top"><h1>attnflow</h1><p class="quiet">{title}</p></header>
    <main class="texts">
      <p class="note">{about}</p>
      <nav aria-label="Order">{orders}</nav>
      <div class="card" tabindex="0" role="region" aria-label="Texts">{table}</div>
      <nav aria-label="Pages">{pages}</nav>
      {errors}
    </main>
  </body>
</html>
"""


def add_texts(app: FastAPI, listing: Listing, model: str) -> None:
    """Serve the list of a run's texts, which are opened with this model."""

    @app.get("/run", include_in_schema=False)
    async def texts(
        order: Literal["disagreement", "row"] = "disagreement",
        page: Annotated[int, Query(ge=1, le=10**9)] = 1,
    ) -> HTMLResponse:
        return HTMLResponse(render_texts(listing, model, order, page))


def render_texts(listing: Listing, model: str, order: str, page: int) -> str:
    """One page of the list, as HTML without script."""
    entries = listing.in_order(order)
    last = max(1, math.ceil(len(entries) / ON_A_PAGE))
    page = min(page, last)
    shown = entries[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    several = len(listing.explainers) > 1  # which can disagree
    numbers = ("Disagreement", "Row") if several else ("Row",)
    titles = ("Text", "Prediction", *listing.explainers)
    head = "".join(f'<th scope="col" class="number">{each}</th>' for each in numbers)
    head += "".join(f'<th scope="col">{_text(each)}</th>' for each in titles)
    body = "".join(_line(each, listing, model, several=several) for each in shown)
    return PAGE.format(
        title=_text(f"{listing.name}: {len(entries)} texts"),
        about=_about(listing),
        orders=_orders(order) if several else "",
        table=f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
        pages=_pages(order, page, last),
        errors=_errors(listing),
    )


def _about(listing: Listing) -> str:
    pairs = "" if listing.linked else " Pairs of texts can't be opened here."
    if len(listing.explainers) < 2:
        return (
            "The last column has the word with the highest score. One method was run; with "
            "several (<code>attnflow run --method rollout --method flow …</code>), the texts on "
            f"which they disagree most come first.{pairs}"
        )
    return (
        "Disagreement is 1 less the mean rank correlation of the methods over ordinary tokens: 0 "
        "where all put tokens in the same order, 1 where orders have nothing in common. The last "
        f"columns have the word with the highest score.{pairs}"
    )


def _line(entry: Entry, listing: Listing, model: str, *, several: bool) -> str:
    far = "–" if math.isnan(entry.disagreement) else f"{entry.disagreement:.2f}"
    first = f'<td class="number">{far}</td>' if several else ""
    name = str(entry.row) if entry.id is None else f"{entry.row} ({entry.id})"
    asked = {"text": entry.text, "model": model, **listing.shown, **entry.target}
    short = entry.text if len(entry.text) <= MOST_SHOWN else entry.text[:MOST_SHOWN] + " …"
    text = f'<span dir="auto">{_text(short)}</span>'
    opens = listing.linked and entry.whole
    link = f'<a href="./#{_text(urlencode(asked))}">{text}</a>' if opens else text
    highest = "".join(f'<td dir="auto">{_text(each)}</td>' for each in entry.highest)
    return (
        f'<tr>{first}<td class="number">{_text(name)}</td>'
        f'<th scope="row">{link}</th><td class="said">{_text(entry.prediction)}</td>{highest}</tr>'
    )


def _orders(order: str) -> str:
    return " ".join(
        _choice(f"by {each}", f"?order={each}", chosen=order == each) for each in ORDERS
    )


def _choice(title: str, link: str, *, chosen: bool) -> str:
    mark = ' aria-current="true"' if chosen else ""
    return f'<a href="run{link}"{mark}>{_text(title)}</a>'


def _pages(order: str, page: int, last: int) -> str:
    if last == 1:
        return ""
    near = sorted({1, *range(max(1, page - 2), min(last, page + 2) + 1), last})
    links = [
        _choice(str(each), f"?order={order}&amp;page={each}", chosen=each == page) for each in near
    ]
    return " ".join(links)


def _errors(listing: Listing) -> str:
    if not listing.errors:
        return ""
    lines = "".join(
        f"<li>Row {bad.row}: {_text(bad.error)}</li>" for bad in listing.errors[:MOST_ERRORS]
    )
    count = len(listing.errors)
    some = f", of which these are the first {MOST_ERRORS}" if count > MOST_ERRORS else ""
    rows = "1 row" if count == 1 else f"{count} rows"
    return (
        f"<details><summary>{rows} could not be explained{some}</summary><ul>{lines}</ul></details>"
    )


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
