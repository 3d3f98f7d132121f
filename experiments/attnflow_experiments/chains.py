"""Which thought decides? Chains of thought in which it is known by construction.

    python -m attnflow_experiments.chains WORK --smollm FOLDER [--shard 1/3] [--chains 1200]

*One step*: five sentences say five different things that nobody knows; the conclusion says one of
them again. *Two steps*: three sentences say which box each of three things is in, and three others
whose the boxes are; the conclusion names the owner of one thing. *Two steps, spelled out*: a
sentence says what somebody has, two others what this and another thing cost; the conclusion says
the thing and then its price. Which sentences decide is known,
as what they say is drawn at random, and nothing else says it. Counted are the chains that the model
follows: it finds the right words likelier than all others, and does so, too, where a deciding
sentence says something else. Writes WORK/chain-*.json, and WORK/tables.md of all that is there. Run
it again to continue; several processes share the work by --shard: 1/3, 2/3 and 3/3 have a kind of
chains each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from attnflow import load_model
from attnflow.models.answers.interface import Answers, answers_of
from attnflow.models.answers.prompts import make_prompt, read_prompt
from attnflow.models.text.writing import Writing
from attnflow.pipeline.request import Request
from attnflow.pipeline.steps import StepsConfig, trace_steps
from attnflow.records.reasoning import Reasoning
from attnflow_experiments.intervals import wilson

THINGS = ("coin", "pen", "cup", "ring", "key", "ball", "map", "spoon", "stamp", "candle")
BOXES = ("red", "blue", "green", "white", "black", "yellow", "brown", "pink")
OWNERS = ("Anna", "Tom", "Mary", "Peter", "Jane", "Paul", "Lucy", "Mark")
# How a sentence begins, and how it may end.
FACTS = (
    ("The museum of Tarn has a collection of", ("clocks", "boats", "stamps", "masks")),
    ("The tower of Hask was built in", ("1911", "1874", "1802", "1936")),
    ("The hives in Orsk are made of", ("cork", "clay", "straw", "wood")),
    ("The shop of Brask is owned by", ("Tom", "Anna", "Peter", "Mary")),
    ("The door of the mill is painted", ("red", "blue", "green", "white")),
    ("The ferry to Aith leaves at", ("six", "nine", "seven", "ten")),
    ("The bread of Lisk is baked with", ("nuts", "milk", "honey", "salt")),
    ("The dog of the baker is called", ("Rex", "Bella", "Max", "Luna")),
    ("The winner of the race gets a golden", ("spoon", "cup", "ring", "coin")),
)
GOODS = (
    ("The museum of Tarn has a collection of", ("clocks", "boats", "stamps", "masks")),
    ("The shop of Brask sells", ("candles", "ropes", "shoes", "lamps")),
    ("The farm in Orsk grows", ("plums", "beans", "roses", "nuts")),
    ("The ferry to Aith carries", ("horses", "barrels", "bricks", "letters")),
    ("The workshop of Anna makes", ("chairs", "violins", "spoons", "hats")),
)
PRICES = ("two", "four", "six", "seven", "nine", "ten")
ONE, TWO, SPELLED = "One step decides", "Two steps decide", "Two steps decide, spelled out"
KINDS = (ONE, TWO, SPELLED)
ATTENTION = Request(edges="attention", method="rollout")
CLAIMED = ("needed", "read", "passed on")


@dataclass(frozen=True)
class Chain:
    """Thoughts and a conclusion.

    Attributes:
        kind: How many steps decide, and whether the conclusion says both.
        prompt: The question.
        thoughts: The sentences that are thought.
        lead: How the last sentence begins.
        right: What it ends in.
        words: All that it might end in.
        deciding: The numbers of the thoughts that decide.
        others: The thoughts where a deciding one says something else, and what follows from these.
    """

    kind: str
    prompt: str
    thoughts: tuple[str, ...]
    lead: str
    right: str
    words: tuple[str, ...]
    deciding: tuple[int, ...]
    others: tuple[tuple[tuple[str, ...], str], ...]

    def answer(self, word: str, thoughts: Sequence[str] | None = None) -> str:
        """All that is written behind the prompt, ending in a word."""
        return f" {' '.join(thoughts or self.thoughts)} {self.lead} {word}."


def make_chain(number: int) -> Chain:
    """The kinds of chains take turns."""
    generator = np.random.default_rng(number)
    kind = KINDS[number % len(KINDS)]

    def draw(of: Sequence[Any], count: int) -> list[Any]:
        return [of[at] for at in generator.choice(len(of), count, replace=False)]

    if kind == ONE:
        told = [FACTS[kind] for kind in generator.permutation(len(FACTS))[:5]]
        ends, at = [draw(ends, 2) for _, ends in told], number // len(KINDS) % 5
        texts = [f"{lead} {end}." for (lead, _), (end, _) in zip(told, ends, strict=True)]
        lead, words = told[at]
        other = (*texts[:at], f"{lead} {ends[at][1]}.", *texts[at + 1 :])
        return Chain(
            kind,
            f"{lead} …? Think first.",
            tuple(texts),
            f"So {lead[0].lower()}{lead[1:]}",
            ends[at][0],
            words,
            (at,),
            ((other, ends[at][1]),),
        )
    if kind == SPELLED:
        return _spelled(draw, generator.permutation(5).tolist())
    things, boxes, owners = draw(THINGS, 3), draw(BOXES, 3), draw(OWNERS, 3)
    order = generator.permutation(6).tolist()

    def tell(inside: Sequence[str], owning: Sequence[str]) -> tuple[str, ...]:
        facts = [f"The {t} is in the {b} box." for t, b in zip(things, inside, strict=True)]
        facts += [f"The {b} box belongs to {o}." for b, o in zip(boxes, owning, strict=True)]
        return tuple(facts[n] for n in order)

    moved = tell([boxes[1], boxes[0], boxes[2]], owners)
    sold = tell(boxes, [owners[1], owners[0], owners[2]])
    return Chain(
        kind,
        f"Whose is the {things[0]}? Think first.",
        tell(boxes, owners),
        f"So the {things[0]} belongs to",
        owners[0],
        tuple(owners),
        tuple(sorted((order.index(0), order.index(3)))),
        ((moved, owners[1]), (sold, owners[1])),
    )


def _spelled(draw: Callable[[Sequence[Any], int], list[Any]], order: Sequence[int]) -> Chain:
    """What somebody has, and what that costs."""
    (lead, every), *others = draw(GOODS, 3)
    goods, prices = draw(every, 2), draw(PRICES, 2)
    beside = [f"{begun} {draw(ends, 1)[0]}." for begun, ends in others]

    def tell(one: str, costs: Sequence[str]) -> tuple[str, ...]:
        told = zip(goods, costs, strict=True)
        cost = [f"Here {each} cost {price} crowns." for each, price in told]
        facts = [f"{lead} {one}.", *cost, *beside]
        return tuple(facts[n] for n in order)

    def conclude(one: str, price: str) -> str:
        return f"{one}, and here {one} cost {price}"

    return Chain(
        SPELLED,
        f"{lead} what, and what do they cost? Think first.",
        tell(goods[0], prices),
        f"So {lead[0].lower()}{lead[1:]}",
        conclude(goods[0], prices[0]),
        tuple(conclude(one, price) for one in goods for price in prices),
        tuple(sorted((order.index(0), order.index(1)))),
        (
            (tell(goods[1], prices), conclude(goods[1], prices[1])),
            (tell(goods[0], prices[::-1]), conclude(goods[0], prices[1])),
        ),
    )


def follows(chain: Chain, answers: Answers) -> bool:
    """Whether the model concludes what follows, and something else where that follows."""
    prompt = make_prompt(chain.prompt, answers.tokenizer, answers.model.name)
    read, _ = read_prompt(answers, prompt, truncate=False)

    def best(thoughts: Sequence[str]) -> str:
        likely = {}
        for word in chain.words:
            whole = answers.write(read, Writing(1, chain.answer(word, thoughts)))
            (found,) = answers.log_probabilities([whole])
            likely[word] = float(found.sum())
        return max(likely, key=lambda word: likely[word])

    every = ((chain.thoughts, chain.right), *chain.others)
    return all(best(thoughts) == right for thoughts, right in every)


def trace(chain: Chain, answers: Answers, config: Request) -> Reasoning:
    """The graph of a chain."""
    prompt = make_prompt(chain.prompt, answers.tokenizer, answers.model.name)
    asked = StepsConfig(Writing(1, chain.answer(chain.right)), "sentences", chain.right)
    return trace_steps(prompt, answers, config, asked)


def measure(number: int, answers: Answers) -> dict[str, Any]:
    """What is said of the thoughts of one chain, as plain data."""
    chain = make_chain(number)
    if not follows(chain, answers):
        return {"follows": False, "kind": chain.kind}
    found = trace(chain, answers, Request())
    rows = [row for row in found.table() if row.name.startswith("step ")]
    end, thoughts = found.conclusion, list(found.thoughts)
    ways = {
        "hidden from the conclusion": [row.direct for row in rows],
        "hidden from all that follows": [row.hidden for row in rows],
        "deleted": [row.deleted for row in rows],
        "score: flow on relevance": [row.score for row in rows],
        "score: rollout of attention": rollout(chain, answers),
        "position: last": list(range(len(rows))),
        "position: first": [-at for at in range(len(rows))],
    }
    return {
        "follows": True,
        "kind": chain.kind,
        "deciding": list(chain.deciding),
        "thoughts": len(thoughts),
        "probability": float(np.exp(found.log_probabilities[end])),
        "roles": [row.role for row in rows],
        "spared": [found.spared_hidden, found.spared_deleted],
        "ways": ways,
    }


def rollout(chain: Chain, answers: Answers) -> list[float]:
    """How much the conclusion's rollout of attention gives to each thought."""
    from attnflow.pipeline.answers import open_answer
    from attnflow.pipeline.steps import cut_steps, whole_start

    prompt = make_prompt(chain.prompt, answers.tokenizer, answers.model.name)
    read, parts = read_prompt(answers, prompt, truncate=False)
    asked = StepsConfig(Writing(1, chain.answer(chain.right)), "sentences", chain.right)
    whole = answers.write(read, asked.writing)
    steps = cut_steps(whole, parts, asked)
    opened = open_answer(whole, answers, ATTENTION)
    groups = tuple(step.positions for step in steps if step.kind == "thought")
    (found,) = opened.rows([groups], lambda _: None)
    rows = [at - whole_start(whole) for at in steps[-1].positions]
    values: list[float] = found.values[rows].mean(0).tolist()
    return values


def report(chains: Sequence[dict[str, Any]]) -> str:
    """A table of all chains that the model follows."""
    lines = []
    for kind in KINDS:
        every = [each for each in chains if each["kind"] == kind]
        having = [each for each in every if each["follows"]]
        if not every:
            continue
        count = len(having)
        told = f"{kind}: {count} of {len(every)} chains are followed"
        if not having:
            lines += [f"{told}.", ""]
            continue
        among, steps = having[0]["thoughts"], len(having[0]["deciding"])
        lines += [
            f"{told}; {among} thoughts each.",
            "",
            f"| found by | {'the deciding step' if kind == ONE else 'both deciding steps'} first |",
            "|---|---|",
        ]
        for way in having[0]["ways"]:
            hits = sum(_finds(each, way) for each in having)
            lines.append(f"| {way} | {hits} of {count} ({_range(hits, count)}) |")
        lines += [f"| chance | {count / comb(among, steps):.1f} of {count} |", ""]
        lines += _claims(having)
    return "\n".join(lines) + "\n"


def _finds(chain: dict[str, Any], way: str) -> bool:
    """Whether the thoughts with the highest values are those that decide; a tie finds nothing."""
    values = np.round(np.array(chain["ways"][way], float), 9)
    order, count = np.argsort(-values, kind="stable"), len(chain["deciding"])
    if values[order[count - 1]] == values[order[count]]:
        return False
    return set(order[:count].tolist()) == set(chain["deciding"])


def _claims(chains: Sequence[dict[str, Any]]) -> list[str]:
    """How often what is said of a thought is true."""
    pairs = [
        (at in chain["deciding"], role)
        for chain in chains
        for at, role in enumerate(chain["roles"])
    ]
    needed = [decides for decides, role in pairs if role == "needed"]
    told = [decides for decides, role in pairs if role in CLAIMED]
    spared = [not decides for decides, role in pairs if role == "spared"]
    deciding = [role in CLAIMED for decides, role in pairs if decides]
    return [
        f"- said to be needed, and decides: {_share(needed)}",
        f"- said to be needed, read or passed on, and decides: {_share(told)}",
        f"- said to be not needed, and does not decide: {_share(spared)}",
        f"- decides, and is said to be needed, read or passed on: {_share(deciding)}",
        "",
    ]


def _share(found: Sequence[bool]) -> str:
    hits, count = sum(found), len(found)
    return f"{hits} of {count} ({_range(hits, count)})" if count else "none"


def _range(hits: int, count: int) -> str:
    low, high = wilson(hits, count)
    return f"{low:.0%}–{high:.0%}"


def main(given: Sequence[str] | None = None) -> None:
    """Measure the chains that are left, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--smollm", required=True, help="SmolLM2-135M-Instruct, folder or GGUF")
    parser.add_argument("--device", help="where the model runs, such as cuda")
    parser.add_argument("--chains", type=int, default=120, help="of all kinds")
    parser.add_argument("--shard", default="1/1", help="every n-th chain from the k-th on: k/n")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no new chain after these")
    asked = parser.parse_args(given)
    answers = answers_of(load_model(asked.smollm, device=asked.device))
    run(asked.work, answers, asked.chains, asked.shard, asked.minutes)


def run(work: Path, answers: Answers, count: int, shard: str = "1/1", minutes: float = 1e6) -> None:
    """Measure the chains that are left, and write the tables of all."""
    work.mkdir(parents=True, exist_ok=True)
    start, (first, of) = time.monotonic(), map(int, shard.split("/"))
    for number in range(count)[first - 1 :: of]:
        path = work / f"chain-{number:03}.json"
        if path.exists():
            continue
        if time.monotonic() - start > 60 * minutes:
            break
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(measure(number, answers)), encoding="utf-8")
        fresh.replace(path)
    files = sorted(work.glob("chain-*.json"))
    text = report([json.loads(file.read_text("utf-8")) for file in files])
    (work / "tables.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
