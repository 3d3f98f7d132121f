"""What sentences rest on: claims against worlds written out by hand, and drops against torch."""

import itertools
import random

import numpy as np
import pytest
import torch

import attnflow
import cited
from attnflow.errors import InputError, Interrupted
from attnflow.pipeline.citing import Citing, find_supports
from attnflow.records.citations import Citation, Citations, CitedSentence

PROMPT = {
    "first": "the old keys are here . play on the mat !",
    "second": "a red cat is here !",
    "third": "keys to the cabinet , of a mat .",
    "question": "is the cat on the red mat ?",
}
ANSWER = " the cat is red ! the keys are old !"


def world(*enough):
    """A sentence that is likely where one of these sets of units is in the prompt."""
    sets = [frozenset(each) for each in enough]

    def value(gone):
        return -1.0 if any(not each & gone for each in sets) else -11.0

    return value


@pytest.mark.parametrize(
    ("sets", "groups"),
    [
        (["0"], [(0,)]),
        (["01"], [(0,), (1,)]),
        (["0", "1"], [(0, 1)]),
        (["01", "02"], [(0,), (1, 2)]),
        (["03", "13", "23"], [(3,), (0, 1, 2)]),
        ([""], []),
    ],
)
@pytest.mark.parametrize("checks", [1, 2, 4])
def test_what_is_needed_and_what_may_be_replaced(sets, groups, checks):
    for order in itertools.permutations(range(4)):
        found = find_supports(world(*[map(int, each) for each in sets]), order, checks, 3.0)
        assert sorted(each.units for each in found) == sorted(groups)
        assert all(each.drop == 10 and not each.apart for each in found)


def test_what_none_can_do_alone():
    """Any two of three: a smallest set is named, as measured where the third is gone."""
    found = find_supports(world({0, 1}, {1, 2}, {0, 2}), [2, 0, 1, 3], 4, 3.0)
    assert sorted((each.units, each.apart) for each in found) == [((0,), True), ((2,), True)]


def test_claims_are_true_in_any_world():
    generator = random.Random(0)
    for _ in range(400):
        size = generator.randint(2, 5)
        count = generator.randint(1, 3)
        sets = [
            frozenset(generator.sample(range(size), generator.randint(1, size)))
            for _ in range(count)
        ]
        value, every = world(*sets), frozenset(range(size))
        order = generator.sample(range(size), size)
        found = find_supports(value, order, generator.randint(1, size), 3.0)
        named = frozenset(unit for each in found for unit in each.units)
        assert found
        assert value(every - named) == -1.0  # what is named is enough
        for each in found:
            beside = every - named if each.apart else frozenset()
            assert each.drop == value(beside) - value(beside | set(each.units)) == 10
            for unit in each.units:  # and so is any one of several
                assert value(beside | (set(each.units) - {unit})) == -1.0


def test_a_drop_counts_by_the_threshold_and_by_its_share():
    """Unit 0 does 10, unit 1 does 1.9 and unit 2 does 3.1, of 15 together: a fifth is 3."""

    def value(gone):
        return -sum((10, 1.9, 3.1)[unit] for unit in gone)

    order = [1, 2, 0]
    assert [each.units for each in find_supports(value, order, 3, 1.5)] == [(2,), (0,)]
    assert [each.units for each in find_supports(value, order, 3, 5.1)] == [(0,)]
    assert find_supports(value, order, 3, 15.1) == []


def test_what_one_source_says_against_another_is_needed():
    """Without unit 0 unit 1 misleads; without both the model knows."""

    def value(gone):
        return -11.0 if 0 in gone and 1 not in gone else -1.0

    assert [each.units for each in find_supports(value, [1, 0], 2, 3.0)] == [(0,)]


def without(model, prompt, answer, gone):
    """The log-probabilities of an answer's tokens behind the tokens of a prompt that are left."""
    ids = [each for at, each in enumerate(prompt) if at not in gone]
    with torch.no_grad():
        rows = model.network(torch.tensor([[*ids, *answer]])).logits[0].double().log_softmax(-1)
    return [float(rows[len(ids) + at - 1, each]) for at, each in enumerate(answer)]


@pytest.mark.parametrize("checks", [1, 5])
def test_drops_are_those_of_deleted_tokens(llama, checks):
    found = attnflow.cite(PROMPT, llama, answer=ANSWER, checks=checks, least=0.2)
    prompt = llama.tokenizer("\n\n".join(PROMPT.values())).input_ids
    answer = llama.tokenizer(ANSWER).input_ids
    words = [text.split() for text in PROMPT.values()]
    starts = np.cumsum([0, *map(len, words)])
    places = [set(range(*pair)) for pair in itertools.pairwise(starts.tolist())]
    rows = [slice(0, 5), slice(5, 10)]
    assert [found.text_of(each) for each in found.sentences] == [
        "the cat is red !",
        "the keys are old !",
    ]
    assert [each.name for each in found.sources] == ["first", "second", "third"]

    def value(row, gone):
        return sum(without(llama, prompt, answer, gone)[row])

    checked = 0
    every = set().union(*places[:3])
    for row, sentence in zip(rows, found.sentences, strict=True):
        whole = value(row, set())
        assert sentence.log_probability == pytest.approx(whole, abs=1e-4)
        assert sentence.drop == pytest.approx(whole - value(row, every), abs=1e-4)
        kept = set().union(*(places[at] for at in sentence.sources))
        for citation in sentence.citations:
            beside = every - kept if citation.apart else set()
            gone = set().union(*(places[at] for at in citation.sources))
            drop = value(row, beside) - value(row, beside | gone)
            assert citation.drop == pytest.approx(drop, abs=1e-4)
            assert drop >= 0.2
            checked += 1
            for quote in citation.quotes:
                text = found.sources[quote.source].text
                assert text == PROMPT[found.sources[quote.source].name]
                if quote.apart:
                    continue
                cut = set()
                for start, end in quote.spans:
                    first = starts[quote.source] + len(text[:start].split())
                    cut |= set(range(first, first + len(text[start:end].split())))
                expected = whole - value(row, cut)
                assert quote.drop == pytest.approx(expected, abs=1e-4)
                checked += 1
    assert checked >= 3
    assert found.options["ranked"] == (checks == 1)


def interrupt_at(monkeypatch, number):
    sentence = Citing.sentence

    def stops(citing, asked):
        if asked == number:
            raise KeyboardInterrupt
        return sentence(citing, asked)

    monkeypatch.setattr(Citing, "sentence", stops)


def test_what_was_finished_is_kept(llama, monkeypatch):
    whole = attnflow.cite(PROMPT, llama, answer=ANSWER)
    interrupt_at(monkeypatch, 1)
    with pytest.raises(Interrupted) as stopped:
        attnflow.cite([PROMPT, PROMPT], llama, answer=ANSWER)
    (found,) = stopped.value.found
    assert found.sentences == whole.sentences[:1]
    assert found.answer == " the cat is red !"
    assert found.warnings[0] == "interrupted: 1 of 2 sentences of the answer are cited"
    assert Citations.from_dict(found.to_dict()).sentences == found.sentences
    interrupt_at(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt) as stopped:
        attnflow.cite(PROMPT, llama, answer=ANSWER)
    assert not isinstance(stopped.value, Interrupted)


def test_only_sources_are_cited(llama):
    roles = {"second": "instructions"}
    found = attnflow.cite(PROMPT, llama, answer=ANSWER, roles=roles)
    assert [each.name for each in found.sources] == ["first", "third"]


def test_what_the_model_writes_is_cited(llama):
    found = attnflow.cite(PROMPT, llama, generate=3)
    assert len(found.answer.split()) == found.cut_at == 3
    assert "… (stopped at 3 tokens)" not in found.answer
    assert "(stopped at 3 tokens)" in str(found)


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("the cat", {}, "the prompt has no sources to cite; name its documents with parts="),
        ({"a": "the cat"}, {}, "without its sources nothing is left of the prompt"),
        (PROMPT, {"least": 0.0}, "least=0.0 must be above 0"),
        (PROMPT, {"checks": 0}, "checks=0 must be an integer of at least 1"),
    ],
)
def test_what_can_not_be_cited_is_refused(llama, prompt, options, message):
    with pytest.raises(InputError, match=message):
        attnflow.cite(prompt, llama, answer=ANSWER, **options)


def test_a_record_is_saved_without_loss(tmp_path):
    found = cited.record(warnings=("mind the gap",), cut_at=4, options={"checks": 5})
    read = Citations.load(found.save(tmp_path / "citations.json.gz"))
    assert read.to_dict() == found.to_dict()
    assert read.sentences == found.sentences


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentences": cited.SENTENCES[:-1]}, r"the sentences end at 27, and the answer has 30"),
        ({"sentences": cited.SENTENCES[1:]}, r"a sentence starts at 11, and the one before .* 0"),
        ({"sources": cited.SOURCES[:2]}, r"source=2 must be an integer from 0 to 1"),
        ({"sources": (cited.SOURCES[1],) * 2 + (cited.CitedSource("a", "b"),)}, r"ends at 10"),
    ],
)
def test_records_that_contradict_themselves_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        cited.record(**changes)


def test_citations_as_text():
    assert str(cited.record()) == (
        "Ada built. [1] Soup is 5. [2][3] Bye. [no source] Hm. [no single source]\n\n"
        "[1] mill or guide, either of which is enough: “Ada built it.” (−4.5) or "
        "“Ada built the mill.” (−4.0). Without both, the sentence is 150 times less likely "
        "(log-probability −1.0 → −6.0).\n"
        "[2] mill: Without this source, the sentence is 33 times less likely "
        "(log-probability −2.0 → −5.5).\n"
        "[3] <b>menu</b>: “Soup is 5.” (−19.5). Without this source (where the sources that are "
        "not cited, which stand in for it, are gone), the sentence is over a million times "
        "less likely (log-probability −20.0).\n"
        "In brackets: the change of the sentence's log-probability without that passage, where "
        "nothing else stands in for it."
    )


def test_citations_as_markdown():
    lines = cited.record().markdown.split("\n\n")
    assert (
        lines[0] == "Ada built.[^1] Soup is 5.[^2][^3] Bye. *(no source)* Hm. *(no single source)*"
    )
    assert lines[1].startswith("[^1]: mill or guide, either of which is enough: “Ada built it.”")
    assert lines[3].startswith(r"[^3]: \<b\>menu\</b\>: “Soup is 5.” (−19.5). Without this source")


def test_citations_in_a_sentence():
    assert cited.record().summary == (
        "2 of 4 sentences rest on sources (“mill”: 2, “guide”: 1, “<b>menu</b>”: 1); 1 on its "
        "sources together, and on no single one; 1 on no source"
    )
    sources = tuple(cited.CitedSource(name, "the cat") for name in "abcd")
    every = (Citation((0, 1, 2, 3), 4.0),)
    one = CitedSentence((0, 3), -1.0, 4.0, every), CitedSentence((3, 6), -1.0, 0.1)
    assert cited.record(answer="A. B. ", sentences=one, sources=sources).summary == (
        "1 of 2 sentences rests on “a”, “b”, “c” and 1 more; 1 on no source"
    )
    bare = CitedSentence((0, 3), -1.0, 0.1), CitedSentence((3, 6), -1.0, 0.1)
    none = cited.record(answer="A. B. ", sentences=bare)
    assert none.summary == "2 of 2 sentences rest on no source"
    assert none.unsupported == ("A.", "B.")
