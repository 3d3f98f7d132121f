"""What several methods come to together, and that no sentence contradicts blanking."""

import itertools
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
import transformers as tf
from hypothesis import given
from hypothesis import strategies as st

import attnflow
import tiny
from attnflow.evaluation.blanking_check import MOST_WORK, BlankingCheck, Removal
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records import Attribution, PatchGrid, Prediction
from attnflow.shipped import folder_of
from attnflow.views.wording.findings import find
from attnflow.views.wording.labels import LONGEST, word_labels
from attnflow.views.wording.numbers import correlation, percent, points
from attnflow.views.wording.summaries import summarize
from attnflow.views.wording.verdicts import (
    ALIKE,
    LITTLE,
    MOST_NAMED,
    REASON,
    SLIGHT,
    UNLIKELY,
    Experiment,
)

SENTIMENT = [
    f"{start} {word}{end}"
    for start, word, end in itertools.product(
        (
            *("No one could call this", "The story is slow, but the music is", "The film is"),
            *("I expected something", "Good acting, good music, good story, and"),
        ),
        (
            *("boring", "wonderful", "unlovable and sinewy", "not bad", "long", "a wonderful,"),
            *("hardly funny", "funny", "too clever"),
        ),
        (".", " and never dull.", " from the first minute to the last."),
    )
]
STRANGE = [  # in languages that the model does not know: many words matter alike
    "Der Film ist langweilig, aber die Musik ist wunderschön.",
    "Das Buch war sehr spannend, und ich habe es in einer Nacht gelesen.",
    "La película es aburrida pero la música es maravillosa",
    "الفيلم ممل ولكن الموسيقى رائعة",
    "الطعام لم يكن جيدا",
    "Фильм скучный, но музыка прекрасна.",
]
VERBS = [
    f"the {noun} {between} the {other}"
    for noun, between, other in itertools.product(
        ("keys", "key", "dogs", "teacher", "man", "big red cars"),
        ("to", "that is near", "and the birds near", "who knew"),
        ("cabinet", "cabinets", "old lake"),
    )
]
METHODS = ("rollout", "flow", "lrp", "blank-out")
CLAIMS = ("because of", "no single", "depends little", "them", "less", "hardly", "other way")


def asked(text, model, method="rollout", **options):
    edges = {} if method in ("lrp", "blank-out") else {"edges": "attention"}
    return open_session(text, model, Request(method=method, **edges, **options))


class Naive:
    """A classifier run by transformers itself, with words replaced by UNK."""

    def __init__(self, name):
        folder = folder_of(name)
        self.tokenizer = tf.AutoTokenizer.from_pretrained(folder)
        model = attnflow.load_model(name)
        self.network, self.labels = model.network, model.network.config.id2label

    def shares(self, ids):
        with torch.no_grad():
            logits = self.network(input_ids=torch.tensor([ids])).logits[0]
        return logits.double().softmax(-1)

    def changes(self, text):
        """For each token the change of the answer's probability without its word, and the label."""
        encoded = self.tokenizer(text)
        ids, words = encoded["input_ids"], encoded.word_ids()
        starts = [None if w is None else encoded.word_to_chars(w) for w in words]
        spans = [None if s is None else self.word_at(text, s.start) for s in starts]
        whole = self.shares(ids)
        best = int(whole.argmax())
        found = []
        for at, span in enumerate(spans):
            same = [o for o, s in enumerate(spans) if s == span] if span else [at]
            rest = [self.tokenizer.unk_token_id if o in same else i for o, i in enumerate(ids)]
            shares = self.shares(rest)
            found.append((float(shares[best] - whole[best]), self.labels[int(shares.argmax())]))
        return float(whole[best]), found

    @staticmethod
    def word_at(text, start):
        """The letters or the single sign around a place."""
        if not text[start].isalnum():
            return start, start + 1
        first = start
        while first and text[first - 1].isalnum():
            first -= 1
        last = start
        while last < len(text) and text[last].isalnum():
            last += 1
        return first, last


def told(parts, *claims):
    """The words that one of these claims is about: those before it, up to the claim before."""
    words, found = [], []
    for part in parts:
        if part.position is not None:
            words.append(part.text)
        elif any(claim in part.text.partition(";")[0] for claim in claims):
            found += words
        if part.position is None and part.text not in (", ", " and "):
            words = []
    return found


def check_lead(found, before, words, said):
    """What stands before the method's own words: ``words`` are (change, label) of each word."""
    sentence = found.sentence
    falls = {w: -change for w, (change, _) in words.items()}
    turns = {w for w, (change, label) in words.items() if label != said and change < 0}
    first = max(falls, key=falls.get)
    alike = {
        word
        for word, fall in falls.items()
        if (word in turns or (fall >= ALIKE * falls[first] and fall >= LITTLE))
        and any(letter.isalnum() for letter in word.partition(":")[0])
    }
    reasons = re.findall(r"“(.*?)”", sentence.partition("because of ")[2].partition(";")[0])
    if falls[first] < LITTLE and first not in turns:
        assert "because of" not in sentence
        assert "no single" not in sentence
    elif before < UNLIKELY:
        assert (
            f"; it is only {percent(before)} likely, and falls most without “{first}”" in sentence
        )
    elif len(alike) > MOST_NAMED:
        many = f"; no single word decides: without any one of {len(alike)} words the answer "
        assert many in sentence
    elif falls[first] < SLIGHT and first not in turns:
        assert f"; it depends little on any one word, most on “{first}”" in sentence
    else:
        assert reasons[0] == first, sentence
        for other in reasons[1:]:
            assert other in turns or falls[other] >= REASON * falls[first] - 1e-6, sentence
    if reasons:
        assert falls[first] >= SLIGHT or first in turns
        assert found.evidence.startswith(f"Without “{first}”: "), found.evidence
        assert points(-falls[first]) in found.evidence


def check_named(found, falls):
    """What is said of the words that the method names, each by its own number."""
    sentence, most = found.sentence, max(falls.values())
    for word in told(found.parts, "of them", "among them"):
        assert "no single word decides" in sentence
        assert falls[word] > 0, sentence
    for word in told(found.parts, "less"):
        assert 0 < falls[word] < most, sentence
    for word in told(found.parts, "hardly"):
        assert abs(falls[word]) < LITTLE, sentence
    for word in told(found.parts, "other way", "against the answer"):
        assert falls[word] <= -LITTLE + 1e-6, sentence


@pytest.mark.parametrize(("name", "texts"), [("sentiment", STRANGE + SENTIMENT), ("verbs", VERBS)])
def test_no_headline_is_refuted_by_the_experiment_below_it(name, texts):
    """Over two hundred texts and four methods, against transformers run by hand."""
    model, naive = attnflow.load_model(name), Naive(name)
    leads, roles = Counter(), set()
    for number, text in enumerate(texts):
        before, changes = naive.changes(text)
        session = asked(text, model, METHODS[number % len(METHODS)])
        found = summarize(session, [session.attribution()], blank=True).main
        labels = word_labels(session.attribution(), LONGEST)
        words = {labels[at]: changes[at] for at in found.order}
        check_lead(found, before, words, session.prediction.label)
        check_named(found, {word: -change for word, (change, _) in words.items()})
        for part in found.parts:
            if part.position is None:
                continue
            change, label = changes[part.position]
            roles.add(part.role)
            if part.role == "for":
                assert change <= -LITTLE + 1e-6 or label != session.prediction.label
            elif part.role == "against":
                assert change >= LITTLE - 1e-6, found.sentence
        for claim in CLAIMS:
            leads[claim] += claim in found.sentence
    assert roles >= {"for", "against", "token"}
    assert leads["because of"] > len(texts) / 4
    assert name == "verbs" or all(leads.values()), leads


def test_an_unlikely_answer_has_no_reason():
    model = attnflow.load_model((tiny.build("llama"), tiny.plain()))
    session = asked("the keys to the cabinet", model, "blank-out")
    before = session.prediction.probability
    assert before < UNLIKELY
    sentence = summarize(session, [session.attribution()], blank=True).main.sentence
    assert "because" not in sentence
    if "falls most" in sentence:
        assert f"only {percent(before)} likely" in sentence


def test_the_largest_change_is_named_with_its_size_and_direction():
    text = "No one could call this boring."
    _, changes = Naive("sentiment").changes(text)
    session = asked(text, attnflow.load_model("sentiment"))
    found = summarize(session, [session.attribution()], blank=True)
    words = [change if 0 < at < len(changes) - 1 else (0, "") for at, change in enumerate(changes)]
    most = max(range(len(words)), key=lambda at: abs(words[at][0]))
    assert f"“{session.tokens.names[most]}”: " in found.main.evidence
    assert points(words[most][0]) in found.main.evidence
    assert found.leaders == f"Blanking puts “{session.tokens.names[most]}” first, rollout “.”."


def test_pieces_of_words_are_named_and_blanked_as_words():
    session = asked("A sinewy film.", attnflow.load_model("sentiment"))
    assert any(name.startswith("##") for name in session.tokens.names)
    found = summarize(session, [session.attribution()], blank=True)
    assert "##" not in found.main.sentence + found.main.evidence + found.agreement
    in_words = asked("A sinewy film.", session.adapter, words=True)
    other = summarize(in_words, [in_words.attribution()], blank=True)
    without = [re.findall(r"“sinewy”: .*?\((.*?)\)", each.main.evidence) for each in (found, other)]
    assert without[0] == without[1] != []


def test_words_that_occur_twice_have_the_place_of_their_first_piece():
    tokens = ("[CLS]", "sin", "##ewy", "or", "sin", "##ewy")
    given = Attribution(
        tokens,
        np.array([[[0, 0.1, 0.2, 0.1, 0.1, 0.9]]]),
        (1,),
        (0,),
        1,
        0,
        "rollout",
        prediction=Prediction("positive", 0.9),
        word_ids=(None, 0, 0, 1, 2, 2),
        word_texts=("sinewy", "or", "sinewy"),
    )
    assert find(given).sentence == "positive; rollout points to “sinewy:4”."


def checked(of, changes, label="plural", contrast=""):
    """What blanking would say: a change and a label for each token."""
    removals = tuple(None if c is None else Removal(*c) for c in changes)
    return BlankingCheck(of, label, 0.9, label, removals, contrast)


@pytest.mark.parametrize(
    ("probability", "changes", "kind"),
    [
        (0.099, (-0.08, 0.0), "unlikely"),
        (0.101, (-0.08, 0.0), "because"),
        (0.9, (-0.40, -0.33, -0.33, -0.33), "many"),  # within four fifths of the largest fall
        (0.9, (-0.40, -0.33, -0.33, -0.31), "because"),
        (0.9, (-0.40, -0.33, -0.33, -0.33, -0.33), "many"),
        (0.9, (-0.051, 0.0), "because"),
        (0.9, (-0.049, 0.0), "little"),
        (0.9, (-0.011, 0.0), "little"),
        (0.9, (-0.009, 0.0), "none"),
    ],
)
def test_where_the_verdict_changes(probability, changes, kind):
    removals = tuple(Removal(each, "plural") for each in changes)
    check = BlankingCheck(None, "plural", probability, "plural", removals)
    experiment = Experiment(check, range(len(changes)), "abcd.".__getitem__)
    assert experiment.decide(()).kind == kind


@pytest.mark.parametrize(
    ("changes", "said", "evidence"),
    [
        (
            [(-0.4, "plural"), (0.0, "plural"), (0.0, "plural")],
            "plural, because of “keys”.",
            "Without “keys”: plural 90.0 % → 50.0 % (−40.0 points).",
        ),
        (
            [(-0.8, "singular"), (0.09, "plural"), (0.2, "plural")],
            "plural, because of “keys”; “cabinet” pulls the other way.",
            "Without “keys”: plural 90.0 % → 10.0 % (−80.0 points), and the answer becomes "
            "“singular”.",
        ),
        (
            [(0.05, "plural"), (-0.3, "plural"), (0.0, "plural")],
            "plural, because of “to”; rollout points to “keys”, which pulls the other way.",
            "Without “to”: plural 90.0 % → 60.0 % (−30.0 points). Without “keys”: → 95.0 % (+5.0 "
            "points).",
        ),
        (
            [(0.001, "plural"), (-0.002, "plural"), (0.0, "plural")],
            "plural; rollout points to “keys”, without which the answer hardly changes.",
            "Without any one word, plural 90.0 % changes by less than 1 point.",
        ),
        (
            [(-0.02, "plural"), (-0.8, "singular"), (0.0, "plural")],
            "plural, because of “to”; rollout points to “keys”, which matters less.",
            "Without “to”: plural 90.0 % → 10.0 % (−80.0 points), and the answer becomes "
            "“singular”. Without “keys”: → 88.0 % (−2.0 points).",
        ),
        ([None, None, None], "plural; rollout points to “keys”.", ""),
    ],
)
def test_sentences_follow_blanking(changes, said, evidence):
    found = judged([0.9, 0.1, 0.1], changes)
    assert (found.sentence, found.evidence) == (said, evidence)


def judged(scores, changes, contrast="", **options):
    """What is found where rollout gives three words these scores, and blanking these changes."""
    tokens = ("[CLS]", "keys", "to", "cabinet")
    of = Attribution(
        tokens,
        np.array([[[0, *scores]]]),
        (1,),
        (0,),
        1,
        0,
        "rollout",
        prediction=Prediction("plural", 0.9),
        **{"word_ids": (None, 0, 1, 2), "word_texts": tokens[1:], **options},
    )
    return find(of, check=checked(of, [None, *changes], contrast=contrast))


@given(
    changes=st.lists(st.integers(-900, 100), min_size=3, max_size=3, unique=True),
    scores=st.lists(st.floats(-1, 1), min_size=3, max_size=3),
    contrast=st.sampled_from(["", "singular"]),
)
def test_no_headline_is_refuted_whatever_scores_and_experiment_say(changes, scores, contrast):
    """With a contrast, too, and with scores of both signs."""
    drops = [each / 1000 for each in changes]
    removals = [(each, "plural" if 0.9 + each > 0.5 else "singular") for each in drops]
    found = judged(scores, removals, contrast)
    words = dict(zip(("keys", "to", "cabinet"), removals, strict=True))
    check_lead(found, 0.9, words, "plural")
    check_named(found, {word: -change for word, (change, _) in words.items()})


def unturned(*changes):
    return [(change, "plural") for change in changes]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (-0.0501, "plural, because of “keys”."),
        (-0.05, "plural, because of “keys”."),  # five points are no longer slight
        (-0.0499, "plural; it depends little on any one word, most on “keys”."),
        (-0.01, "plural; it depends little on any one word, most on “keys”."),
        (-0.0099, "plural; rollout points to “keys”, without which the answer hardly changes."),
        (0.0099, "plural; rollout points to “keys”, without which the answer hardly changes."),
        (0.01, "plural; rollout points to “keys”, which pulls the other way."),
    ],
)
def test_less_than_a_point_is_neither_for_the_answer_nor_against_it(change, said):
    found = judged([0.9, 0.1, 0.1], unturned(change, 0, 0))
    assert found.sentence == said
    small = "Without any one word, plural 90.0 % changes by less than 1 point."
    assert (found.evidence == small) == (abs(change) < 0.01)


def test_a_word_that_turns_the_answer_speaks_for_it_however_little_it_changes():
    found = judged([0.9, 0.1, 0.1], [(-0.004, "singular"), (0.0, "plural"), (0.0, "plural")])
    assert found.sentence == "plural, because of “keys”."
    assert found.evidence.endswith("89.6 % (−0.4 points), and the answer becomes “singular”.")
    # Where the target was not the answer in the first place, it can become it by rising.
    found = judged([0.9, 0.1, 0.1], [(0.004, "singular"), (0.0, "plural"), (0.0, "plural")])
    assert "because" not in found.sentence


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (-0.37, "plural, because of “to” and “keys”."),
        (-0.2, "plural, because of “to” and “keys”."),  # half of the largest fall is enough
        (-0.199, "plural, because of “to”; rollout points to “keys”, which matters less."),
    ],
)
def test_a_reason_has_half_of_the_largest_fall(change, said):
    assert judged([0.9, 0.1, 0.1], unturned(change, -0.4, 0)).sentence == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (0.1, "plural, because of “keys”; “cabinet” pulls the other way."),  # a fifth
        (0.0999, "plural, because of “keys”."),
    ],
)
def test_a_word_against_the_answer_has_a_fifth_of_the_largest_fall(change, said):
    assert judged([0.9, 0.1, 0.1], unturned(-0.5, 0, change)).sentence == said


def test_what_changes_less_than_a_point_is_not_against_the_answer_however_little_falls():
    found = judged([0.9, 0.1, 0.1], unturned(-0.02, 0, 0.009))
    assert found.sentence == "plural; it depends little on any one word, most on “keys”."


def test_words_that_matter_as_much_are_named_together():
    """Whether or not the method names them, and although the first one alone turns the answer."""
    said = "plural, because of “to” and “cabinet”; rollout points to “keys”, which matters less."
    assert judged([0.9, 0.1, 0.1], unturned(-0.1, -0.4, -0.36)).sentence == said
    assert "“cabinet”" not in judged([0.9, 0.1, 0.1], unturned(-0.1, -0.4, -0.359)).sentence
    turned = [(-0.3, "plural"), (-0.45, "singular"), (0.0, "plural")]
    assert judged([0.9, 0.1, 0.1], turned).sentence == "plural, because of “to” and “keys”."


def test_a_full_stop_is_no_word():
    changes = unturned(-0.4, -0.39, -0.38, -0.37)
    for name, kind in [("abcd", "many"), ("abc.", "because"), (("a", "b", "c", ".:9"), "because")]:
        removals = tuple(Removal(*each) for each in changes)
        check = BlankingCheck(None, "plural", 0.9, "plural", removals)
        assert Experiment(check, range(4), name.__getitem__).decide(()).kind == kind


def test_the_change_is_the_difference_of_the_numbers_beside_it():
    """78.9 − 60.2 is 18.7: where it is 18.6, both have another digit."""
    found = judged([0.9, 0.1, 0.1], unturned(-0.1436, 0, 0))
    assert found.evidence == "Without “keys”: plural 90.0 % → 75.6 % (−14.4 points)."
    check = BlankingCheck(None, "plural", 0.78862, "plural", (Removal(-0.18614, "plural"),))
    sentence = Experiment(check, [0], ["room"].__getitem__).evidence([])
    assert sentence == "Without “room”: plural 78.86 % → 60.25 % (−18.6 points)."


def test_with_a_contrast_the_likelier_of_the_two_changes():
    found = judged(
        [0.9, 0.1, 0.1],
        [(-0.6, "singular"), (0.0, "plural"), (0.0, "plural")],
        contrast="singular",
        options={"contrast": "singular"},
    )
    assert found.sentence == "plural rather than “singular”, because of “keys”."
    assert found.evidence == (
        "Without “keys”: plural against singular 90.0 % → 30.0 % (−60.0 points), and “singular” "
        "becomes the more likely one."
    )
    found = judged([0.9, 0.1, 0.1], unturned(0, 0, -0.3), contrast="singular")
    assert found.sentence.endswith("“keys”, without which the choice hardly changes.")


def test_patches_that_speak_for_the_answer_are_called_so():
    grid = {"grid": PatchGrid(1, 3, (10, 30), (0.0, 0.0, 10.0, 30.0))}
    found = judged([0.9, 0.1, 0.1], unturned(-0.4, 0, 0.3), **grid)
    assert found.sentence == "plural, because of patch “keys”; patch “cabinet” pulls the other way."
    assert found.evidence.startswith("Without patch “keys”: plural ")
    found = judged([0.9, 0.85, 0.1], unturned(-0.4, -0.3, 0), **grid)
    assert found.sentence == "plural, because of patches “keys” and “to”."
    found = judged([0.9, 0.85, 0.1], unturned(-0.004, 0.003, 0), **grid)
    assert found.sentence.startswith("plural; rollout points to patches “keys” and “to”, which ")
    assert found.evidence.startswith("Without any one patch, plural 90.0 % changes by less than 1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            unturned(-0.4, -0.1, 0),
            "plural, because of “keys”; “to” scores high, too, but it matters less.",
        ),
        (
            unturned(-0.4, 0.05, 0.2),
            "plural, because of “keys”; “to” scores high, too, but it pulls the other way; "
            "“cabinet” pulls against the answer, too.",
        ),
        (
            unturned(-0.4, 0.001, 0),
            "plural, because of “keys”; “to” scores high, too, but without it the answer hardly "
            "changes.",
        ),
        (unturned(-0.4, -0.3, 0), "plural, because of “keys” and “to”."),
        (unturned(-0.3, -0.4, 0), "plural, because of “to” and “keys”."),
        (
            unturned(0.3, 0.2, 0),
            "plural; rollout points to “keys” and “to”, which pull the other way.",
        ),
        (
            unturned(0.003, 0.002, -0.3),
            "plural, because of “cabinet”; rollout points to “keys” and “to”, which hardly change "
            "the answer, each alone.",
        ),
        (
            unturned(0.2, 0.002, -0.3),
            "plural, because of “cabinet”; rollout points to “keys”, which pulls the other way, "
            "and “to”, without which the answer hardly changes.",
        ),
        (
            unturned(-0.03, 0.02, -0.3),
            "plural, because of “cabinet”; rollout points to “keys”, which matters less, and “to”, "
            "which pulls the other way.",
        ),
    ],
)
def test_each_of_two_named_words_has_the_verb_that_holds_for_it(changes, said):
    assert judged([0.9, 0.85, 0.01], changes).sentence == said


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([9, 1, 1, 1, 1], "“a”, one of them."),
        ([9, 8, 1, 1, 1], "“a” and “b”, which are among them."),
        ([1, 1, 1, 1, 9], "“e”, which matters less."),
        (
            [9, 1, 1, 1, 8],
            "“a”, one of them, and “e”, which matters less.",
        ),
    ],
)
def test_one_of_many_words_that_decide_alike_does_not_matter_less(scores, said):
    tokens = ("[CLS]", *"abcde")
    of = Attribution(
        tokens,
        np.array([[[0, *scores]]], dtype=float),
        (1,),
        (0,),
        1,
        0,
        "rollout",
        prediction=Prediction("plural", 0.9),
        word_ids=(None, *range(5)),
        word_texts=tokens[1:],
    )
    check = checked(of, [None, *unturned(-0.4, -0.39, -0.38, -0.37, -0.1)])
    many = "; no single word decides: without any one of 4 words the answer falls by about as much"
    assert find(of, check=check).sentence == f"plural{many}; rollout points to {said}"


def test_an_unknown_word_is_called_by_its_text():
    of = replace(
        attnflow.explain("the keys", "verbs", method="rollout"),
        tokens=("[CLS]", "[UNK]", "[UNK]"),
        word_texts=("उबाऊ", "फिल्म"),
    )
    assert "“उबाऊ”" in find(of).sentence or "“फिल्म”" in find(of).sentence
    assert "UNK" not in find(of).sentence


def test_the_scores_of_blank_out_have_directions_of_their_own():
    session = asked("No one could call this boring.", attnflow.load_model("sentiment"), "blank-out")
    alone, both = session.attribution(), summarize(session, [session.attribution()], blank=True)
    assert find(alone).sentence == both.main.sentence
    assert find(alone).evidence == both.main.evidence


def test_what_is_not_checked_is_said_and_why():
    model = attnflow.load_model("sentiment")
    session = asked("slow " * 60, model)
    found = summarize(session, [session.attribution()], blank=True)
    assert int(model.description["parameters"]) * session.size**2 > MOST_WORK
    why = f"the model would have to run once without each of {session.size} tokens"
    assert found.unchecked == f"not checked by blanking: {why}"
    assert (found.main.evidence, found.agreement) == ("", "")
    assert "because of" not in found.main.sentence
    page = summarize(session, [session.attribution()], blank=True, tokens=128)
    assert page.unchecked == ""
    assert page.main.evidence


def test_few_tokens_have_no_order_to_compare():
    model = attnflow.load_model("sentiment")
    session = asked("good film", model)
    found = summarize(session, [session.attribution()], blank=True)
    assert found.agreement.startswith("2 tokens are too few")
    session = asked("good", model)
    found = summarize(session, [session.attribution()], blank=True)
    assert found.main.sentence.endswith("positive; “good” is the only token.")
    assert found.main.evidence.startswith("Without “good”: positive ")
    assert found.agreement == ""


def test_methods_that_put_the_same_word_first_are_named(classifier):
    model = attnflow.load_model(classifier)
    blanked = attnflow.explain(tiny.TEXT, model, method="blank-out").top(1)[0][0]
    seen = set()
    for method in ("raw", "rollout", "flow", "widest"):
        session = asked(tiny.TEXT, model, method)
        found = session.attribution()
        agreement = summarize(session, [found], blank=True).agreement
        same = found.top(1)[0][0] == blanked and find(found).tied == 1
        assert (f"Blanking and {method} put “{blanked}" in agreement) is same
        assert same or f"Blanking puts “{blanked}" in agreement
        seen.add(same)
    assert seen


@pytest.mark.parametrize("words", [False, True])
def test_what_is_compared_token_by_token_and_what_by_words_is_said(words):
    text = "The unforgettable music is wonderful."
    session = asked(text, attnflow.load_model(None), words=words)
    summary = summarize(session, [session.attribution("rollout")], blank=True)
    pieces = any(len(group) > 1 for group in session.groups)
    assert pieces, "a word of several tokens"
    assert summary.agreement.startswith("Token by token, blanking") != words
    assert (". Of whole words, blanking" in summary.agreement) != words
    whole = asked("The music is wonderful.", attnflow.load_model(None))
    summary = summarize(whole, [whole.attribution("rollout")], blank=True)
    assert summary.agreement.startswith("Blanking ")


def test_special_tokens_are_in_no_agreement():
    """They are never shown, and are sinks: the verdict would be theirs."""
    session = asked("good good good bad", attnflow.load_model("sentiment"), "rollout")
    found = session.attribution()
    shown = [at for at, word in enumerate(found.word_ids) if word is not None]
    blanked = attnflow.blank_out("good good good bad", "sentiment").values
    rho = scipy.stats.spearmanr(found.values[shown], blanked[shown]).statistic
    everywhere = scipy.stats.spearmanr(found.values, blanked).statistic
    assert abs(rho - everywhere) > 0.1
    said = summarize(session, [found], blank=True).agreement
    assert f"rollout (ρ {correlation(rho)})" in said
    flow = session.attribution("flow")
    alone = summarize(session, [found, flow], blank=False).agreement
    rho = scipy.stats.spearmanr(*(np.round(e.values[shown], 9) for e in (found, flow))).statistic
    assert f"(ρ {correlation(rho)})" in alone


def test_methods_on_few_tokens_are_not_compared_either():
    session = asked("good bad", attnflow.load_model("sentiment"), "rollout")
    both = [session.attribution(), session.attribution("raw")]
    assert summarize(session, both, blank=False).agreement == (
        "2 tokens are too few to compare their order."
    )
    assert "2 tokens are too few" in summarize(session, both, blank=True).agreement
