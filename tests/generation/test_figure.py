"""The figure of an answer: cells are scores, parts are marked, what it can't draw is refused."""

import numpy as np
import pytest

import attnflow
from attnflow.errors import InputError
from attnflow.views.figures import figure

DOCUMENTS = {"first": "the old keys", "second": "a red cat is here", "question": "keys to"}


@pytest.fixture(scope="module")
def answer(llama):
    options = {"method": "rollout", "correction": None, "each": "tokens"}
    return attnflow.explain_answer(DOCUMENTS, llama, generate=3, **options)


def test_cells_are_the_scores_of_the_prompt(answer):
    ax = figure("generation", answer).axes[0]
    drawn = np.asarray(ax.collections[0].get_array())
    np.testing.assert_array_equal(drawn, answer.matrix()[:, :10])
    # Repeated tokens have their positions in prompt and answer together.
    names = [
        token if answer.tokens.count(token) == 1 else f"{token}:{at}"
        for at, token in enumerate(answer.tokens)
    ]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == names[10:]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == names[:10]
    assert [text.get_text() for text in ax.texts] == ["first", "second", "que…on"]


def test_rows_have_colours_of_their_own(answer):
    ax = figure("generation", answer, relative=True).axes[0]
    drawn = np.asarray(ax.collections[0].get_array())
    np.testing.assert_allclose(drawn.max(-1), 1)
    own = answer.matrix()[:, :10]
    np.testing.assert_allclose(drawn, own / own.max(-1, keepdims=True))


def test_axes_of_a_callers_own_are_drawn_on(answer):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert answer.figure(ax=ax, values=True) is ax
    assert len(ax.texts) == 30 + 3


def test_answers_and_attributions_are_not_mixed_up(answer):
    with pytest.raises(InputError, match=r"use kind 'generation', or one token of it"):
        figure("heatmap", answer)
    with pytest.raises(InputError, match="kind 'generation' draws answers"):
        figure("generation", answer.at(answer=0))
