"""A record of citations written out by hand: one source, either of two, and none."""

from attnflow.records.citations import Citation, Citations, CitedSentence, CitedSource, Quote

SOURCES = (
    CitedSource("mill", "It is old. Ada built it."),
    CitedSource("guide", "Ada built the mill. Bo sleeps."),
    CitedSource("<b>menu</b>", "Soup is 5."),
)
SENTENCES = (
    CitedSentence(
        (0, 11),
        -1.0,
        6.0,
        (
            Citation(
                (0, 1), 5.0, quotes=(Quote(0, ((11, 24),), 4.5, True), Quote(1, ((0, 19),), 4.0))
            ),
        ),
    ),
    CitedSentence(
        (11, 22),
        -2.0,
        7.5,
        (
            Citation((0,), 3.5),
            Citation((2,), 20.0, apart=True, quotes=(Quote(2, ((0, 10),), 19.5),)),
        ),
    ),
    CitedSentence((22, 27), -0.5, 0.25),
    CitedSentence((27, 30), -0.5, 4.0),
)


def record(**changes):
    parts = {
        "answer": "Ada built. Soup is 5. Bye. Hm.",
        "sentences": SENTENCES,
        "sources": SOURCES,
        "model": "tiny",
        "text": "the prompt",
        "least": 3.0,
        "share": 0.2,
        "runs": 9,
    }
    return Citations(**{**parts, **changes})
