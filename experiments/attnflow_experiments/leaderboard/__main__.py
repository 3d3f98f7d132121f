"""The leaderboard: which method is the most faithful, on four data sets, by one command.

    python -m attnflow_experiments.leaderboard WORK --data FOLDER [--page docs/leaderboard.md]

Evaluates every method on every kind of edges beside baselines, in pieces that are kept in WORK: run
it again to continue. Writes WORK/BOARD.json for each board, and the page. Without --data the page
is written from the results that are in WORK. With --raw it has the boards of that file, too, which
is written anew.

FOLDER has sst2/ (GLUE's), sva/full_sentences/wiki-dev.txt, rationales/hummingbird_sentiment.tsv and
corpora/ud_english_ewt.conllu.gz. MiniLM is fine-tuned by ``attnflow train sentiment`` unless a
folder is given.
"""

from __future__ import annotations

import argparse
import logging
import platform
from pathlib import Path

from attnflow.evaluation.result import Evaluation
from attnflow.models.loading import load_model
from attnflow_experiments.leaderboard.boards import Models, accuracy, make_boards
from attnflow_experiments.leaderboard.measure import Task, allowed, measure
from attnflow_experiments.leaderboard.page import write_page
from attnflow_experiments.leaderboard.raw import read_raw, write_raw


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--page", type=Path, default=Path("docs/leaderboard.md"))
    parser.add_argument("--raw", type=Path, help="the file of Parquet with every number")
    parser.add_argument("--only", action="append", metavar="BOARD")
    parser.add_argument(
        "--count", action="append", metavar="BOARD=N", default=[], help="texts of a board"
    )
    parser.add_argument("--without", action="append", metavar="RULE", default=[], help="edges")
    parser.add_argument("--filler", action="append", metavar="NAME", help="unk and delete")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="where models run, such as cuda")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--minilm", type=Path, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--smollm", type=Path, help="the folder of SmolLM2-135M-Instruct")
    parser.add_argument("--sentiment", type=Path, help="a model that is fine-tuned already")
    given = parser.parse_args()
    logging.getLogger("attnflow").setLevel(logging.ERROR)
    if given.data is not None:
        evaluate(given, parser)
    order = make_boards(Models(given.work, given.work), given.seed)
    paths = {name: given.work / f"{name}.json" for name in order}
    found = {name: Evaluation.load(path) for name, path in paths.items() if path.exists()}
    if given.raw is not None:
        found = (read_raw(given.raw) if given.raw.exists() else {}) | found
        found = {name: found[name] for name in order if name in found}
        write_raw(given.raw, found)
    missing = [board.title for name, board in order.items() if name not in found]
    given.page.write_text(write_page(found, missing), encoding="utf-8")


def evaluate(given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Measure all boards that are asked for, and save them."""
    models = Models(
        given.work, given.data, given.device, given.minilm, given.smollm, given.sentiment
    )
    boards = make_boards(models, given.seed)
    counts = {name: int(count) for name, _, count in (each.partition("=") for each in given.count)}
    for name in (*(given.only or ()), *counts):
        if name not in boards:
            parser.error(f"{name} is unknown; there are {', '.join(boards)}")
    tasks, about = [], {}
    for name in given.only or boards:
        board = boards[name]
        source, rows = board.model(), board.taken(counts.get(name))
        model = load_model(source, device=given.device)
        edges, methods, refused = allowed(model, rows[0]["text"], given.without)
        about[name] = {
            "title": board.title,
            "texts": board.texts,
            "accuracy": accuracy(source),
            "refused": refused,
            "causal": model.is_decoder(model.tokenize(rows[0]["text"])),
            "device": f"on {given.device or 'the CPU'} with Python {platform.python_version()}",
        }
        fillers = tuple(given.filler or ("unk", "delete"))
        task = Task(
            name,
            str(source),
            tuple(rows),
            edges,
            methods,
            fillers,
            board.rationale,
            given.seed,
            given.device,
            given.work / "pieces",
        )
        tasks.append(task)
    # The slowest first, so that no process waits for another at the end.
    for name, found in measure(tasks[::-1], given.workers).items():
        found.about.update(about[name])
        found.save(given.work / f"{name}.json", overwrite=True)


if __name__ == "__main__":
    main()
