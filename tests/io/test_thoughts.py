"""Answers cut into thoughts and a conclusion."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnflow.errors import InputError
from attnflow.io.thoughts import split_thoughts


def cut(answer, **options):
    return [(kind[0], answer[start:end]) for kind, start, end in split_thoughts(answer, **options)]


@pytest.mark.parametrize(
    ("answer", "options", "expected"),
    [
        (
            "<think>\nIt is 3 + 4. So 7.\n</think>\n\nSeven.",
            {},
            [
                ("m", "<think>"),
                ("t", "\nIt is 3 + 4. "),
                ("t", "So 7.\n"),
                ("m", "</think>"),
                ("c", "\n\nSeven."),
            ],
        ),
        # the mark that opens stands in the prompt
        ("Hm.</think>7", {}, [("t", "Hm."), ("m", "</think>"), ("c", "7")]),
        (
            "[THINK]Hm.[/THINK]7",
            {},
            [("m", "[THINK]"), ("t", "Hm."), ("m", "[/THINK]"), ("c", "7")],
        ),
        ("One. Two. Three.", {}, [("t", "One. "), ("t", "Two. "), ("c", "Three.")]),
        ("一。二。三。", {}, [("t", "一。"), ("t", "二。"), ("c", "三。")]),
        ("A.\n\nBo. Co.\n\nD.", {}, [("t", "A.\n\n"), ("t", "Bo. Co.\n\n"), ("c", "D.")]),
        (
            "A.\n\nBo. Co.\n\nD.",
            {"by": "sentences"},
            [("t", "A.\n\n"), ("t", "Bo. "), ("t", "Co.\n\n"), ("c", "D.")],
        ),
        # numbers: what stands before them, steps of one line or several, what follows the last
        (
            "Well:\n1. A. B.\n2. C.\nSo D.",
            {},
            [("t", "Well:\n"), ("t", "1. A. B.\n"), ("t", "2. C.\n"), ("c", "So D.")],
        ),
        (
            "**Step 1:** A.\nB.\n**Step 2:** C.\nD.\n\nSo E. F.",
            {},
            [("t", "**Step 1:** A.\nB.\n"), ("t", "**Step 2:** C.\nD.\n\n"), ("c", "So E. F.")],
        ),
        ("1. A.\n2. B.", {}, [("t", "1. A.\n"), ("c", "2. B.")]),
        ("It was 1. Bo. Then C.", {}, [("t", "It was 1. "), ("t", "Bo. "), ("c", "Then C.")]),
        # a conclusion in its own words, and what leads to it
        (
            "A is 7. So A has 7 keys.",
            {"conclusion": "7 keys"},
            [("t", "A is 7. "), ("m", "So A has "), ("c", "7 keys.")],
        ),
        ("A is. B is.", {"conclusion": "B is"}, [("t", "A is. "), ("c", "B is.")]),
        (
            "<think>A.</think>It is 7.",
            {"conclusion": "7"},
            [("m", "<think>"), ("t", "A."), ("m", "</think>"), ("m", "It is "), ("c", "7.")],
        ),
    ],
    ids=str,
)
def test_thoughts_end_where_a_reader_would_say(answer, options, expected):
    assert cut(answer, **options) == expected


MARKS = (
    "<think>",
    "</think>",
    "\n",
    "\n\n",
    " ",
    "1. ",
    "2. ",
    "Step 3: ",
    "- ",
    "```\n",
    "|a|b|\n",
)
TEXTS = ("Yes. ", "No!", "So", "बारिश। ", "雨だ。", "نعم؟ ", "Да. ", "e.g. ", "3.5 ")
PIECES = st.sampled_from((*MARKS, *TEXTS))


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join), st.sampled_from(["auto", "sentences"]))
def test_pieces_cover_the_answer_without_gaps_or_overlaps(answer, by):
    try:
        pieces = split_thoughts(answer, by)
    except InputError:
        return
    assert "".join(answer[start:end] for _, start, end in pieces) == answer
    assert [pieces[0].start, *(each.end for each in pieces[:-1])] == [each.start for each in pieces]
    assert all(answer[start:end].strip() for kind, start, end in pieces if kind != "mark")
    assert [each.kind for each in pieces].index("conclusion") == len(pieces) - 1
    assert any(each.kind == "thought" for each in pieces)


@pytest.mark.parametrize(
    ("answer", "options", "message"),
    [
        ("Seven.", {}, "has no thoughts before its conclusion: 'Seven.'"),
        ("<think>Hm. It is", {}, r"nothing follows the thoughts .* let the model write more"),
        ("<think>Hm.</think> \n", {}, "nothing follows the thoughts"),
        ("<think> </think>7", {}, "has no thoughts"),
        ("A. B.", {"by": "lines"}, "by='lines' is unknown; allowed: 'auto', 'numbers'"),
        ("A. B.", {"by": "numbers"}, "no numbered steps are in 'A. B.'"),
        ("A. B.", {"conclusion": "C"}, "conclusion='C' is not in the answer: 'A. B.'"),
        ("A. B.", {"conclusion": " "}, "conclusion=' ' is not in the answer"),
        ("A. B.", {"conclusion": 7}, "conclusion=7 is not in the answer"),
    ],
)
def test_what_can_not_be_cut_is_refused(answer, options, message):
    with pytest.raises(InputError, match=message):
        split_thoughts(answer, **options)
