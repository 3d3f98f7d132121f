"""Does the headline name the right document? Forty answers whose sources are known.

    python -m attnflow_experiments.parts.headlines WORK --smollm FOLDER [--fresh]
        [--chromium PROGRAM]

Twenty answers of a fact that one of three documents has, ten of general knowledge that none of them
has, and ten of a fact that two of four documents have; with `--fresh` twenty others, by which no
rule was changed (`attnflow_experiments.parts.fresh`). What is decisive is found out by hand: the
model reads the prompt without a document's tokens, by transformers alone. Writes WORK/case-*.npz
and WORK/case-*.json, and WORK/tables.md of all that is there: how often the headline is right, and
in how many cases the terminal, JSON and the page say the same (with `--chromium`, the page as a
browser shows it). Run it again to continue; nothing is computed twice.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import attnflow
from attnflow.cli.answers import as_data
from attnflow.records.generation import Generation
from attnflow.views.explorer.generation import generation_document
from attnflow.views.terminal.answers import answer_view
from attnflow.views.wording.answers import judge
from attnflow_experiments.intervals import wilson
from attnflow_experiments.parts.cases import make_cases
from attnflow_experiments.parts.fresh import FRESH

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
# Less than a hundredth as likely without it is decisive, more than half as likely is nothing.
DECISIVE, NOTHING = math.log(100), math.log(2)
ONE, TOGETHER, NONE, BETWEEN = (
    "one document, without which it is less than a hundredth as likely",
    "no one alone (more than half as likely), but all together (less than a hundredth)",
    "nothing: more than half as likely without any, and without all",
    "between these limits",
)


@dataclass(frozen=True)
class Known:
    """An answer whose sources are known.

    Attributes:
        documents: The documents.
        question: The question.
        answer: The answer.
        sources: The numbers of the documents that have it.
    """

    documents: tuple[str, ...]
    question: str
    answer: str
    sources: tuple[int, ...]


def cases() -> Iterator[Known]:
    """The cases."""
    for number, case in enumerate(make_cases(20)):
        texts = tuple(" ".join(each) for each in case.documents)
        fact = case.documents[case.fact][1]
        yield Known(texts, case.question, fact, (case.fact,))
        if number % 2:
            again = (*texts, f"A letter says the same: {fact}")
            yield Known(again, case.question, fact, (case.fact, len(texts)))
        else:
            yield Known(texts, *KNOWN[number // 2], ())


def fresh_cases() -> Iterator[Known]:
    """Cases by which no rule was changed."""
    return (Known(*each) for each in FRESH)


def explain(case: Known, model: Any) -> Generation:
    """The answer, explained as anyone would."""
    content = "\n\n".join([*case.documents, f"{case.question} Answer in one short sentence."])
    parts = {f"document {number + 1}": text for number, text in enumerate(case.documents)}
    chat = [{"role": "user", "content": content}]
    return attnflow.explain_answer(chat, model, parts=parts, answer=case.answer, parts_only=True)


def drops_by_hand(found: Generation, model: Any) -> list[float]:
    """What the answer loses without each document and without all, by the network alone."""
    ids = model.tokenizer.convert_tokens_to_ids(list(model.tokenizer.tokenize(found.text)))
    answer = model.tokenizer(found.answer_text, add_special_tokens=False)["input_ids"]
    if len(ids) + len(answer) != len(found.tokens):
        msg = f"{found.answer_text!r}: tokenized in another way"
        raise ValueError(msg)

    def known(left: Sequence[int]) -> float:
        with torch.no_grad():
            inputs = torch.tensor([[*left, *answer]], device=model.network.device)
            rows = model.network(inputs).logits[0, len(left) - 1 : -1]
        each = rows.double().log_softmax(-1)
        return float(each[range(len(answer)), answer].sum())

    sets = [set(part.positions) for part in found.parts if part.role == "source"]
    whole = known(ids)
    return [
        whole - known([one for at, one in enumerate(ids) if at not in gone])
        for gone in [*sets, set().union(*sets)]
    ]


def truth(drops: Sequence[float]) -> str:
    """What decides, of the drops without each document and without all of them."""
    *alone, joint = drops
    if max(alone) > DECISIVE:
        return ONE
    if max(alone) < NOTHING:
        return TOGETHER if joint > DECISIVE else NONE if joint < NOTHING else BETWEEN
    return BETWEEN


def is_right(found: Generation, drops: Sequence[float]) -> bool:
    """Whether the headline says what decides; of several documents, the one that decides most."""
    verdict, decides, alone = judge(found), truth(drops), drops[:-1]
    if decides == ONE:
        named = [part.name for part in found.parts if part.role == "source"]
        return bool(verdict.rests_on) and verdict.rests_on[0] == named[alone.index(max(alone))]
    return not verdict.rests_on and verdict.together == (decides == TOGETHER)


def agree(found: Generation, shown: str | None = None) -> bool:
    """Whether terminal, page and JSON say the same; ``shown`` is the text of the page, opened."""
    said = judge(found).text
    console = Console(file=StringIO(), width=100)
    console.print(answer_view(found, console))
    page = generation_document(found)["generation"]["found"] if shown is None else shown
    texts = (console.file.getvalue(), page, as_data(found)["found"])
    return all(_plain(said) in _plain(text) for text in texts)


def _plain(text: str) -> str:
    return " ".join(text.split())


def opened(found: Generation, file: Path, chromium: str) -> str:
    """The text of the page of an answer, as a browser shows it."""
    found.explore().save(file, overwrite=True)
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=9000"]
    run = [chromium, *quiet, "--dump-dom", file.as_uri()]
    dom = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", dom, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", body))


def report(work: Path, chromium: str | None = None) -> str:
    """The tables of all cases that are there."""
    right, all_of, same, furthest = Counter[str](), Counter[str](), 0, 0.0
    missed = []
    files = sorted(work.glob("case-*.json"))
    for file in files:
        drops = json.loads(file.read_text("utf-8"))
        found = Generation.load(file.with_suffix(".npz"))
        decides, good = truth(drops), is_right(found, drops)
        all_of[decides] += 1
        right[decides] += good
        page = file.with_suffix(".html").resolve()
        agreed = agree(found, opened(found, page, chromium) if chromium else None)
        same += agreed
        measured = [row.drop for row in found.table() if row.name.startswith("document")]
        pairs = zip([*measured, found.without_sources.sum()], drops, strict=True)
        furthest = max(furthest, *(abs(one - other) for one, other in pairs))
        if not (agreed and (good or decides == BETWEEN)):
            lost = ", ".join(f"{each:.1f}" for each in drops)
            missed.append(f"- {file.stem} ({lost}; {decides}): {judge(found).text}")
    rows = []
    for name in (ONE, TOGETHER, NONE):
        if count := all_of[name]:
            low, high = wilson(right[name], count)
            rows.append(f"| {name} | {right[name]} of {count} ({low:.0%}–{high:.0%}) |")
    lines = ["| what decides | headline is right |", "|---|---|", *rows, ""]
    lines.append(f"{all_of[BETWEEN]} {BETWEEN}.")
    lines.append(f"Terminal, page and JSON say the same in {same} of {len(files)}.")
    lines.append(f"Drops differ by at most {furthest:.1g} from those by hand.")
    return "\n".join([*lines, *missed]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--smollm", help="SmolLM2-135M-Instruct, folder or GGUF; else report alone")
    parser.add_argument("--device", help="where the model runs, such as cuda")
    parser.add_argument("--fresh", action="store_true", help="the twenty others")
    parser.add_argument("--chromium", help="a browser, which opens the page of every case")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    model = attnflow.load_model(given.smollm, device=given.device) if given.smollm else None
    for number, case in enumerate(fresh_cases() if given.fresh else cases()) if model else ():
        path = given.work / f"case-{number:02}.json"
        if path.exists():
            continue
        found = explain(case, model)
        found.save(path.with_suffix(".npz"), overwrite=True)
        path.write_text(json.dumps(drops_by_hand(found, model)), encoding="utf-8")
        print(f"{path.stem}: {judge(found).text}", flush=True)
    text = report(given.work, given.chromium)
    (given.work / "tables.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
