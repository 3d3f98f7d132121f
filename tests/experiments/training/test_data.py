"""What the verb-number model is trained on, and what it must never see."""

import pytest

import agreement_data
from attnflow.errors import InputError
from attnflow_experiments.training import corpora, data, derived
from attnflow_experiments.training.lexicon import build_lexicon, plurals


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "HELD_ATTRACTORS", {1: 3, 2: 3, 3: 2, 4: 2, 5: 2})
    original = data.split_rows
    monkeypatch.setattr(data, "split_rows", lambda f, development=0: original(f, 30, development))
    return agreement_data.write(tmp_path)


def test_no_training_row_is_or_continues_a_held_out_prefix(folders):
    found = data.load_training_data(*folders, development=5)
    held = found.held_out.prefixes
    assert len(found.held_out.natural) == 30
    assert len(found.held_out.development) == 5
    assert {"the tall kings of the house", "the car"} <= held
    rows = [prefix for source in found.sources.values() for prefix, _ in source]
    assert len(rows) > 200
    assert not held & set(rows)
    long = tuple(prefix + " " for prefix in held if len(prefix.split()) >= 4)
    assert not [row for row in rows if row.startswith(long)]


def test_every_source_has_rows_with_both_labels(folders):
    found = data.load_training_data(*folders)
    for name in ("natural", "attractors", "cut", "corpora", "flipped"):
        assert {label for _, label in found.sources[name]} == {0, 1}, name
    assert all(word in found.vocabulary for word in ("dog", "dogs", "kings"))


def test_the_split_does_not_change(folders):
    assert data.load_training_data(*folders).held_out == data.load_training_data(*folders).held_out


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"numpred\.val is missing"):
        data.split_rows(tmp_path)


def lexicon():
    sentence = [
        ("key", "NN"), ("keys", "NNS"), ("cabinet", "NN"), ("cabinets", "NNS"), ("people", "NNS"),
        ("person", "NN"), ("the", "DT"), ("is", "VBZ"),
    ]  # fmt: skip
    return build_lexicon([sentence], ["key", "keys", "cabinet", "person", "people"])


def test_the_lexicon_completes_pairs():
    found = lexicon()
    assert found.other["cabinet"] == "cabinets"  # though only one of them is in the data
    assert found.other["people"] == "person"
    assert found.number["cabinets"] == 1
    assert "the" not in found.number


@pytest.mark.parametrize(
    ("singular", "plural"),
    [("city", "cities"), ("day", "days"), ("church", "churches"), ("woman", "women")],
)
def test_plurals(singular, plural):
    assert plural in plurals(singular)


def test_rows_are_cut_after_the_subject():
    assert list(derived.cut_rows(("the keys to the cabinet", 1), lexicon())) == [("the keys", 1)]


def test_rows_within_a_prefix_end_before_a_finite_verb():
    rows = list(
        derived.inner_rows("the key is old and the keys were lost when they are", lexicon())
    )
    assert rows == [("the key", 0), ("the key is old and the keys", 1)]


@pytest.mark.parametrize(
    ("row", "flipped"),
    [
        (("these keys", 1), [("this key", 0)]),
        (("a rusty key", 0), [("the rusty keys", 1)]),
        (("the key of people", 1), []),  # the last noun need not be the subject there
        (("all the keys", 1), []),  # "every the key" is no English
    ],
)
def test_flipping_the_number(row, flipped):
    assert list(derived.flipped_rows(row, lexicon())) == flipped


def test_brown_possessives_and_tags():
    line = "The/at city's/nn$ men/nns are/ber n't/*"
    assert list(corpora._brown_words(line)) == [
        ("The", "AT"), ("city", "NN"), ("'s", "POS"), ("men", "NNS"), ("are", "VBP"), ("n't", "*"),
    ]  # fmt: skip


def test_corpus_rows_write_unknown_words_as_tags():
    sentence = [("The", "DT"), ("zebras", "NNS"), ("never", "RB"), ("sleep", "VBP")]
    assert list(corpora.adjacent_rows(sentence, {"the", "never", "NNS"})) == [("the NNS never", 1)]


def test_parsed_rows_find_the_subject_across_an_attractor():
    columns = [line.split("\t") for line in agreement_data.CONLLU.splitlines()]
    known = {"the", "dogs", "near", "house"}
    assert list(corpora.parsed_rows(columns, known)) == [("the dogs near the house", 1)]
