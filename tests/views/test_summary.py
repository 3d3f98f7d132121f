"""What several methods come to together, and that no sentence contradicts blanking."""

import itertools
import re

import numpy as np
import pytest
import scipy.stats
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.evaluation.blanking_check import MOST_WORK, BlankingCheck, Removal
from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.sessions import open_session
from attnflow.records import Attribution, Prediction
from attnflow.shipped import folder_of
from attnflow.views.claims import LITTLE
from attnflow.views.findings import find
from attnflow.views.numbers import correlation, percent, points
from attnflow.views.summary import summarize

SENTIMENT = [
    f"{start} {word}."
    for start, word in itertools.product(
        ("No one could call this", "The story is slow, but the music is", "I expected something"),
        ("boring", "wonderful", "unlovable and sinewy", "not bad"),
    )
]
VERBS = [
    f"the {noun} {between} the {other}"
    for noun, between, other in itertools.product(
        ("keys", "key", "dogs"), ("to", "that is near"), ("cabinet", "cabinets")
    )
]
METHODS = ("rollout", "flow", "lrp", "blank-out")


def asked(text, model, method="rollout", **options):
    edges = {} if method in ("lrp", "blank-out") else {"edges": "attention"}
    return open_session(text, model, ExplainConfig(method=method, **edges, **options))


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


def check_for(sentence, word, change, turned, changes):
    """A word that is said to speak for the answer does; as the reason, half as much as any does."""
    assert change < -LITTLE or turned, sentence
    reasons = sentence.partition("because of ")[2].partition(";")[0]
    if f"“{word}”" in reasons and not turned:
        assert change <= 0.5 * min(each for each, _ in changes) + 1e-6, sentence


@pytest.mark.parametrize(("name", "texts"), [("sentiment", SENTIMENT), ("verbs", VERBS)])
def test_what_is_claimed_is_what_blanking_measures(name, texts):
    """Over many texts and methods, a word that is said to speak for the answer does."""
    model, naive = attnflow.load_model(name), Naive(name)
    roles = set()
    for text in texts:
        before, changes = naive.changes(text)
        for method in METHODS:
            session = asked(text, model, method)
            found = summarize(session, [session.attribution()], blank=True).main
            for part in found.parts:
                if part.position is None:
                    continue
                change, label = changes[part.position]
                roles.add(part.role)
                if part.role == "for":
                    turned = label != session.prediction.label
                    check_for(found.sentence, part.text, change, turned, changes[1:-1])
                elif part.role == "against":
                    assert change > LITTLE, found.sentence
                elif found.tied == 1 and "stands out" not in found.sentence:
                    assert abs(change) < LITTLE, found.sentence
            assert "because of" not in found.sentence or "for" in {p.role for p in found.parts}
            first = next((p.position for p in found.parts if p.position is not None), None)
            if first is not None and found.evidence.startswith("Without “"):
                change = changes[first][0]
                then = f"→ {percent(before + change)} ({points(change)})"
                if found.tied == 1 and "stands out" not in found.sentence:
                    assert then in found.evidence
    assert roles >= {"for", "against", "token"}


def test_the_largest_change_is_named_with_its_size_and_direction():
    text = "No one could call this boring."
    _, changes = Naive("sentiment").changes(text)
    session = asked(text, attnflow.load_model("sentiment"))
    found = summarize(session, [session.attribution()], blank=True)
    words = [change if 0 < at < len(changes) - 1 else (0, "") for at, change in enumerate(changes)]
    most = max(range(len(words)), key=lambda at: abs(words[at][0]))
    assert f"“{session.tokens.names[most]}”: " in found.main.evidence
    assert points(words[most][0]) in found.main.evidence
    assert found.agreement.endswith(f"“{session.tokens.names[most]}” first.")


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


def checked(of, changes, label="plural"):
    """What blanking would say: a change and a label for each token."""
    removals = tuple(None if c is None else Removal(*c) for c in changes)
    return BlankingCheck(of, label, 0.9, label, removals)


@pytest.mark.parametrize(
    ("changes", "said", "evidence"),
    [
        (
            [(-0.4, "plural"), (0.0, "plural"), (0.0, "plural")],
            "plural, because of “keys”.",
            "Without “keys”: plural 90.0% → 50.0% (−40.0 points).",
        ),
        (
            [(-0.8, "singular"), (0.09, "plural"), (0.2, "plural")],
            "plural, because of “keys”; “cabinet” pulls the other way.",
            "Without “keys”: plural 90.0% → 10.0% (−80.0 points), and the answer becomes "
            "“singular”.",
        ),
        (
            [(0.05, "plural"), (-0.3, "plural"), (0.0, "plural")],
            "plural; rollout points to “keys”, which pulls the other way; blanking points to “to”.",
            "Without “keys”: plural 90.0% → 95.0% (+5.0 points). The largest change is without "
            "“to”: → 60.0% (−30.0 points).",
        ),
        (
            [(0.001, "plural"), (-0.002, "plural"), (0.0, "plural")],
            "plural; rollout points to “keys”, without which the answer hardly changes.",
            "Without any one word, plural 90.0% changes by less than 1 point.",
        ),
        (
            [(-0.02, "plural"), (-0.8, "singular"), (0.0, "plural")],
            "plural; rollout points to “keys”; blanking points to “to”.",
            "Without “keys”: plural 90.0% → 88.0% (−2.0 points). The largest change is without "
            "“to”: → 10.0% (−80.0 points), and the answer becomes “singular”.",
        ),
        ([None, None, None], "plural; rollout points to “keys”.", ""),
    ],
)
def test_sentences_follow_blanking(changes, said, evidence):
    tokens = ("[CLS]", "keys", "to", "cabinet")
    of = Attribution(
        tokens,
        np.array([[[0, 0.9, 0.1, 0.1]]]),
        (1,),
        (0,),
        1,
        0,
        "rollout",
        prediction=Prediction("plural", 0.9),
        word_ids=(None, 0, 1, 2),
        word_texts=tokens[1:],
    )
    found = find(of, check=checked(of, [None, *changes]))
    assert (found.sentence, found.evidence) == (said, evidence)


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
