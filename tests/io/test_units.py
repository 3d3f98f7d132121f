"""Units of a text: they cover it, and sentences end where readers of ten scripts see them end."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnflow.errors import InputError
from attnflow.io.units import split_units

SENTENCES = {
    "Latin": ["The hotel has a pool. ", "Breakfast is at 7.30 a.m. in the hall! ", "Really?"],
    "Latin, quoted": ['He said "Stop." ', "She did not stop… ", "(Nobody did.)"],
    "Latin, abbreviated": [
        "Dr. Smith met J. K. Rowling, e.g. in London. ",
        "It was 1999. ",
        "She left.",
    ],
    "Latin, small letters": ["the keys are red . ", "the cat is old, e.g. in bed. ", "is it?"],
    "German": ["Das kostet z.B. 3,50 Euro. ", "Ist das teuer?"],
    "Greek": ["Το ξενοδοχείο έχει πισίνα. ", "Είναι μεγάλη."],
    "Cyrillic": ["В отеле есть бассейн. ", "Он большой!"],
    "Chinese": ["酒店有游泳池。", "早餐七点开始！", "他说：“好。”", "真的吗？"],
    "Japanese": ["ホテルにはプールがあります。", "朝食は七時です。"],
    "Arabic": ["في الفندق مسبح. ", "هل هو كبير؟ ", "نعم."],
    "Urdu": ["ہوٹل میں تالاب ہے۔ ", "ناشتہ سات بجے ہے۔"],
    "Hebrew": ["במלון יש בריכה. ", "היא גדולה."],
    "Hindi": ["होटल में पूल है। ", "नाश्ता सात बजे है।"],
    "Armenian": ["Հյուրանոցը լողավազան ունի։ ", "Այն մեծ է։"],
    "Amharic": ["ሆቴሉ መዋኛ አለው። ", "ትልቅ ነው።"],
    "Korean": ["호텔에 수영장이 있습니다. ", "아침은 7시입니다."],
}
PIECES = st.sampled_from(
    [
        *("a", "Bee", "Dr", "e.g", "3", "14", " ", "  ", "\n", "\n\n", "\r\n", "\t", ".", "!", "?"),
        *(
            "…",
            "。",
            "؟",
            "।",
            "。”",
            '."',
            "- ",
            "1. ",
            "| a |",
            "```",
            "# ",
            "    ",
            "🙂",
            "\u200d",
        ),
        *("é", "e\u0301", "السلام", "你好", "\u2028", "\x0b", "\x00", "x = 1"),
        *(word for texts in SENTENCES.values() for text in texts for word in text.split()),
    ]
)


@pytest.mark.parametrize("script", SENTENCES)
def test_sentences_end_where_a_reader_sees_them_end(script):
    expected = SENTENCES[script]
    text = "".join(expected)
    assert [text[start:end] for start, end in split_units(text)] == expected


@pytest.mark.parametrize("by", ["sentences", "paragraphs"])
@given(pieces=st.lists(PIECES, max_size=30))
@example(pieces=[])
@example(pieces=["\n", "a"])
def test_units_cover_a_text_without_gaps_or_overlaps(by, pieces):
    text = "".join(pieces)
    found = split_units(text, by)
    assert "".join(text[start:end] for start, end in found) == text
    assert all(start < end for start, end in found)
    if text.strip():
        assert all(text[start:end].strip() for start, end in found)


@given(text=st.text(max_size=60))
def test_every_sentence_lies_in_one_paragraph(text):
    starts = {start for start, _ in split_units(text)}
    assert {start for start, _ in split_units(text, "paragraphs")} <= starts


def units(text, by="sentences"):
    return [text[start:end] for start, end in split_units(text, by)]


def test_list_items_table_rows_headings_and_code_lines_are_units():
    text = (
        "# Hotel\nIt has a pool. It is warm.\n\n- a bar\n- a gym. Open daily.\n  Until ten.\n"
        "1. first\n2. second\n\n| day | price |\n| --- | --- |\n| Mon | 30 |\n\n"
        "```python\nx = 1\ny = 2\n```\nThe end."
    )
    assert units(text, "paragraphs") == [
        "# Hotel\n",
        "It has a pool. It is warm.\n\n",
        "- a bar\n",
        "- a gym. Open daily.\n  Until ten.\n",
        "1. first\n",
        "2. second\n\n",
        "| day | price |\n",
        "| --- | --- |\n",
        "| Mon | 30 |\n\n",
        "```python\n",
        "x = 1\n",
        "y = 2\n",
        "```\n",
        "The end.",
    ]
    assert "It has a pool. " in units(text)
    assert "It is warm.\n\n" in units(text)
    assert "- a gym. " in units(text)


def test_lines_of_one_paragraph_stay_together():
    assert units("one line\nand its\nrest. Then more.") == [
        "one line\nand its\nrest. ",
        "Then more.",
    ]


def test_unknown_units_are_refused():
    with pytest.raises(InputError, match="units='letters' is unknown; allowed: sentences, para"):
        split_units("text", "letters")


def test_a_long_paragraph_is_cut_in_linear_time():
    """A million characters in one paragraph; quadratic work would take hours."""
    text = "It rains in No. 5, e.g. at noon. " * 30_000
    assert len(split_units(text)) == 30_000
