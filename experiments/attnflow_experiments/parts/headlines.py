"""Does the headline name the right document? Forty answers whose sources are known.

    python -m attnflow_experiments.parts.headlines SMOLLM [--cases 40]

Twenty answers of a fact that one of three documents has, ten of general knowledge that none of them
has, and ten of a fact that two of four documents have. What is decisive is found out by hand: the
model reads the prompt without a document's tokens, by transformers alone. Prints what the headline
names, and a table of how often it is right.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import attnflow
from attnflow.records.generation import Generation
from attnflow.views.wording.answers import judge
from attnflow_experiments.parts.cases import make_cases

KNOWN = (
    ("What is the capital of France?", "The capital of France is Paris."),
    ("Which planet do we live on?", "We live on the planet Earth."),
    ("How many days does a week have?", "A week has seven days."),
    ("What colour is the sky on a clear day?", "The sky is blue."),
    ("What is two plus two?", "Two plus two is four."),
    ("Who wrote Romeo and Juliet?", "Romeo and Juliet was written by William Shakespeare."),
    ("What is the largest ocean?", "The largest ocean is the Pacific Ocean."),
    ("How many legs does a spider have?", "A spider has eight legs."),
    ("What is the opposite of hot?", "The opposite of hot is cold."),
    ("Which animal says meow?", "The cat says meow."),
)


DECISIVE, NOTHING = math.log(100), math.log(2)


@dataclass(frozen=True)
class Known:
    """An answer whose sources are known.

    Attributes:
        kind: ``"one"`` document has the fact, ``"none"``, or ``"two"`` have it.
        documents: The documents.
        question: The question.
        answer: The answer.
        sources: The numbers of the documents that have it.
    """

    kind: str
    documents: tuple[str, ...]
    question: str
    answer: str
    sources: tuple[int, ...]


def cases() -> Iterator[Known]:
    """The cases."""
    made = make_cases(20)
    for number, case in enumerate(made):
        texts = tuple(" ".join(each) for each in case.documents)
        fact = case.documents[case.fact][1]
        yield Known("one", texts, case.question, fact, (case.fact,))
        if number % 2:
            again = (*texts, f"A letter says the same: {fact}")
            yield Known("two", again, case.question, fact, (case.fact, len(texts)))
        else:
            question, answer = KNOWN[number // 2]
            yield Known("none", texts, question, answer, ())


def explain(case: Known, model: Any) -> Generation:
    """The answer, explained as anyone would."""
    content = "\n\n".join([*case.documents, f"{case.question} Answer in one short sentence."])
    parts = {f"document {number + 1}": text for number, text in enumerate(case.documents)}
    chat = [{"role": "user", "content": content}]
    options = {"parts_only": True, "each": "answer"}
    return attnflow.explain_answer(chat, model, parts=parts, answer=case.answer, **options)


def drops_by_hand(found: Generation, model: Any) -> tuple[list[float], float]:
    """What the answer loses without each document and without all, by the network alone."""
    ids = model.tokenizer.convert_tokens_to_ids(list(model.tokenizer.tokenize(found.text)))
    answer = model.tokenizer(found.answer_text, add_special_tokens=False)["input_ids"]
    if len(ids) + len(answer) != len(found.tokens):
        msg = f"{found.answer_text!r}: tokenized in another way"
        raise ValueError(msg)

    def known(left: Sequence[int]) -> float:
        with torch.no_grad():
            rows = model.network(torch.tensor([[*left, *answer]])).logits[0, len(left) - 1 : -1]
        each = rows.double().log_softmax(-1)
        return float(each[range(len(answer)), answer].sum())

    sets = [set(part.positions) for part in found.parts if part.role == "source"]
    whole = known(ids)
    lost = [
        whole - known([one for at, one in enumerate(ids) if at not in gone])
        for gone in [*sets, set().union(*sets)]
    ]
    return lost[:-1], lost[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("smollm", help="SmolLM2-135M-Instruct, folder or GGUF")
    parser.add_argument("--cases", type=int, default=40)
    given = parser.parse_args()
    model = attnflow.load_model(given.smollm)
    right, all_of = Counter[str](), Counter[str]()
    for case in list(cases())[: given.cases]:
        found = explain(case, model)
        verdict, (alone, joint) = judge(found), drops_by_hand(found, model)
        named = [int(name.rsplit(" ", 1)[1]) - 1 for name in verdict.rests_on or ()]
        # Down to a hundredth of its probability is decisive, to more than half of it is nothing.
        decisive = [at for at, drop in enumerate(alone) if drop > DECISIVE]
        truth = "one" if decisive else "several" if joint > DECISIVE else "unclear"
        if max(*alone, joint) < NOTHING:
            truth = "none"
        good = {
            "one": bool(named) and named[0] == max(range(len(alone)), key=alone.__getitem__),
            "several": verdict.together,
            "none": not named and not verdict.together,
            "unclear": False,
        }[truth]
        all_of[truth] += 1
        right[truth] += good
        lost = ", ".join(f"{each:.1f}" for each in alone)
        print(f"{case.kind}: {lost}; all {joint:.1f}: {truth}, {good}: {verdict.text}", flush=True)
    rows = [
        f"| {name} | {right[name]} of {count} |"
        for name, count in all_of.items()
        if name != "unclear"
    ]
    rows.append(f"| unclear: between half and a hundredth as likely | ({all_of['unclear']}) |")
    print("\n".join(["| decisive without it | headline is right |", "|---|---|", *rows]))


if __name__ == "__main__":
    main()
