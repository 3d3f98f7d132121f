"""The page in a notebook: interactive where scripts run, and a picture where they don't."""

from __future__ import annotations

import base64
import io
from typing import Any

from attnflow.records import Attribution
from attnflow.records.generation import Generation
from attnflow.views.explorer.render import to_iframe

PNG = "image/png"
DOTS_PER_INCH = 100
# A frame of its own keeps the page and the notebook apart, as `to_iframe` does without a widget.
FRAME = """
export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.title = "attnflow explorer";
    frame.sandbox = "allow-scripts allow-downloads";
    frame.srcdoc = model.get("page");
    frame.style = `width:100%;height:${model.get("height")}px;border:0;border-radius:8px`;
    el.append(frame);
  },
};
"""


def draw_picture(of: Attribution | Generation) -> str:
    """A figure of the same as a PNG, in base 64."""
    from attnflow.views.figures import figure

    content = io.BytesIO()
    drawn = figure("generation" if isinstance(of, Generation) else "heatmap", of)
    drawn.savefig(content, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight")
    return base64.b64encode(content.getvalue()).decode("ascii")


def _framed(page: str, height: int, picture: str | None) -> str:
    """The page in a frame, over a picture that is left where frames or scripts are taken out."""
    frame = to_iframe(page, height)
    if picture is None:
        return frame
    image = f'<img src="data:{PNG};base64,{picture}" alt="attnflow" style="max-width:100%">'
    covering = frame.replace('style="', 'style="position:absolute;inset:0;background:Canvas;', 1)
    return f'<div style="position:relative;height:{height}px;overflow:auto">{image}{covering}</div>'


def to_bundle(page: str, height: int, picture: str | None) -> dict[str, Any]:
    """All that a notebook may show, by its kind: a widget, too, if anywidget is installed."""
    bundle = {"text/plain": "<attnflow explorer>", "text/html": _framed(page, height, picture)}
    if picture is not None:
        bundle[PNG] = picture
    try:
        import anywidget
        from traitlets import Int, Unicode
    except ImportError:
        return bundle

    class ExplorerWidget(anywidget.AnyWidget):
        _esm = FRAME
        page = Unicode().tag(sync=True)
        height = Int().tag(sync=True)

    widget: Any = ExplorerWidget(page=page, height=height)._repr_mimebundle_()
    return {**(widget[0] if isinstance(widget, tuple) else widget or {}), **bundle}
