"""The table of options: every option of every function, command and request, declared once.

A function takes the fields of one table as keywords. Tables that share options share a base, so
that a field that is added here is a keyword, a flag, and part of what a run records. Types are for
type checkers alone: nothing heavy is imported here, so that help pages appear at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from attnflow.options.option import INPUT, LOADING, WORK, Unless, option, required
from attnflow.options.parsing import (
    parse_correction,
    parse_device,
    parse_heads,
    parse_layers,
    parse_position,
)

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from attnflow.models.answers.prompts import Parts
    from attnflow.models.text.writing import Stream
    from attnflow.records.learned import LearnedHeads
    from attnflow.records.parts import Role

    MethodName = (
        Literal[
            "auto",
            "flow",
            "rollout",
            "raw",
            "barrier",
            "widest",
            "additive",
            "direct",
            "direct-all",
            "gradient-norm",
            "gradient-input",
            "integrated",
            "blank-out",
            "lrp",
        ]
        | str
    )
    EdgesName = (
        Literal[
            "auto",
            "attention",
            "effective",
            "norms",
            "norms-residual",
            "alti",
            "gradient",
            "gradient-only",
            "value-zeroing",
            "relevance",
            "removal",
        ]
        | str
    )
    HeadsChoice = (
        Literal["mean", "each"]
        | str
        | PathLike[str]
        | Sequence[int]
        | Sequence[float]
        | LearnedHeads
    )
    CorrectionName = Literal["auto", "uniform", "sink"] | str | None
    SourceName = Literal["position", "logit"] | str
    ReplacementName = Literal["unk", "mask", "pad", "delete"] | str
    FillerName = Literal["unk", "mask", "delete", "mean"] | str
    Layers = int | Iterable[int] | Literal["all"] | None
    Query = int | str | None
    TargetSpec = str | int | None

# What options do not apply to: functions by their names, and what else is asked for.
ROUTES, EXPLORE, ANSWER, KNOCKOUT = "routes", "explore", "explain_answer", "knockout"
MEASURES = "methods that run the model again"
WITHOUT_STEPS = "methods without steps"
SIGNED = "methods whose scores have signs"
AMOUNTS = "edges that are amounts"
ARRIVALS = "scores that are what arrives from the target"
FROM_LOGIT = "scores that start at a logit"
MEASURED = "edges that measure the residual connection"
NO_TARGET = "edges that are the same for every target"
# Of models and their inputs; errors name the model.
PAIRS = "encoder–decoders"
NOT_CAUSAL = "models that are not causal decoders"
NO_LOGIT = "models that are not decoders of texts"
NO_PROMPTS = "models that answer no prompts"
LABELS = "models that predict a label of the whole input"
SPANS = "models that find a span of the input"
NO_OFFSETS = "tokens without offsets in the text"
PIECES = "inputs that consist of pieces"
WHOLE_ANSWER = "a whole answer"
RUNS_AGAIN = "it runs the model again and reads no edges, layers or heads; leave it out"
AT_ONCE = (
    "its scores sum up all heads and paths between the target and the input; leave it out, or use "
    "method='raw'"
)
ONE_LOGIT = "its scores start at one logit and sum up all layers; leave it out"
EACH_TOKEN = "every token of the answer is explained where it was predicted"
ALL_TOKENS = "all its tokens are asked about; leave it out, or leave out answer= and generate="
SAME_FOR_ALL = (
    "they are the same for every target; use edges='gradient', or a method that reads no edges, "
    "such as method='gradient-norm', or source='logit', or leave it out"
)
ONE_SCORE = "they are the routes of one score"
WHOLE_VIEW = "the view shows every layer, head and method"
OWN_OR_BEST = (
    "those that the named method was published with, mostly attention; without a method, what "
    "works best for the model"
)


def other_than(refused: str) -> Callable[[object], bool]:
    """Whether a value is not this one; of an array, ``!=`` would compare the elements."""
    return lambda given: not (isinstance(given, str) and given == refused)


def _adds_up(heads: object) -> bool:
    """Whether all heads are asked for, each of them, or some by number."""
    if isinstance(heads, str):
        return heads in ("mean", "each")
    return isinstance(heads, tuple) and all(isinstance(head, int) for head in heads)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How an input becomes tokens."""

    truncate: bool = option(
        False, "Truncate texts that are too long for the model.", "--truncate", panel=INPUT
    )
    bos: bool = option(
        False,
        "Put BOS in front, for causal models whose tokenizer adds none.",
        "--bos",
        more="Attention that has nowhere else to go then goes to BOS instead of the first word. "
        "The result's ``warnings`` say what the model predicts with and without it.",
        panel=INPUT,
        served=True,
        described=True,
    )


@dataclass(frozen=True, kw_only=True)
class AskingOptions:
    """Which position is explained, and against what."""

    query: Query = option(
        None,
        "The position to explain: a token or its number, from 0.",
        "--query -q TOKEN",
        more='``"all"`` is every position; ``None`` is where the model decides: CLS, the mask, the '
        "last token.",
        shows="where the model decides: CLS, the mask, the last token",
        parse=parse_position,
        not_for={
            ANSWER: EACH_TOKEN,
            ROUTES: Unless("they end at one position; name it", other_than("all")),
            KNOCKOUT: Unless("it changes the prediction at one position", other_than("all")),
            ARRIVALS: Unless(AT_ONCE, other_than("all")),
            FROM_LOGIT: Unless(ONE_LOGIT, other_than("all")),
            LABELS: "it predicts a label of the whole input, not one of a position; leave it out",
            WHOLE_ANSWER: ALL_TOKENS,
        },
    )
    contrast: TargetSpec = option(
        None,
        "Explain why the target rather than this label or token, or why the answer rather than "
        "this one.",
        "--contrast LABEL",
        more="For answers, scores explain the choice at the first token in which the two differ.",
        shows=False,
        served=True,
        not_for={
            NO_TARGET: SAME_FOR_ALL,
            SPANS: "its answer is a span and has no other label to compare with; leave it out",
            WHOLE_ANSWER: ALL_TOKENS,
        },
    )


@dataclass(frozen=True, kw_only=True)
class TargetOptions(AskingOptions):
    """What is explained of one input."""

    target: TargetSpec | Sequence[TargetSpec] = option(
        None,
        "Explain this label or token, given by its name or number.",
        "--target LABEL",
        more="A list gives one for each input; ``None`` is the model's prediction. Digits given as "
        "text are the label of that name if there is one, and a number otherwise. If several "
        'tokens look alike, the likeliest is taken; ``" word"`` is the one with the space.',
        shows="the model's prediction",
        served=True,
        not_for={ANSWER: EACH_TOKEN, NO_TARGET: SAME_FOR_ALL, WHOLE_ANSWER: ALL_TOKENS},
    )
    answer: str | Sequence[str] | None = option(
        None,
        "The answer of an encoder–decoder; the token after it is explained.",
        "--answer TEXT",
        more="A list gives one for each input; ``None`` is the model's own answer. To explain "
        "every token of an answer, use `attnflow.explain_answer`.",
        panel=INPUT,
        shows="the model's own answer",
    )
    sampling_rate: int | None = option(
        None,
        "The sampling rate of a sound that is given as an array; it is resampled if the model "
        "expects another.",
        panel=INPUT,
        not_for={ANSWER: "prompts are texts"},
    )


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """How edges are made of what a rule gives."""

    heads: HeadsChoice = option(
        "mean",
        "How heads are merged: mean, each, numbers such as 0,3, or a .json file of attnflow fit.",
        "--heads HEADS",
        more='In Python also weights, or what `attnflow.fit` returned; ``"each"`` gives the scores '
        "of single heads.",
        parse=parse_heads,
        not_for={
            EXPLORE: WHOLE_VIEW,
            **{
                function: Unless("heads are merged; pick one by number", other_than("each"))
                for function in (ROUTES, ANSWER, "similarity")
            },
            MEASURES: RUNS_AGAIN,
            AMOUNTS: Unless("heads add up; pick some by number, or leave it out", _adds_up),
            ARRIVALS: Unless(AT_ONCE, other_than("each")),
            FROM_LOGIT: ONE_LOGIT,
        },
    )
    residual: float | None = option(
        None,
        "The share of each row that is given to the residual connection, from 0 to below 1.",
        "--residual SHARE",
        shows="0.5; 0 for raw",
        not_for={MEASURES: RUNS_AGAIN, MEASURED: "the rule measures it; leave it out"},
    )
    discard: float = option(
        0.0,
        "The share of the smallest attention weights that are set to zero in each layer.",
        "--discard RATIO",
        shows=False,
        not_for={
            MEASURES: RUNS_AGAIN,
            AMOUNTS: "amounts have to add up, and discarding some would break that; leave it out",
            PAIRS: "it is for models of one sequence, not for encoder–decoders; leave it out",
        },
    )


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Where scores start, and what they are corrected for."""

    layer: int | None = option(
        None,
        "The layer to explain: 1 … L, or negative from the top.",
        "--layer -l N",
        shows="the top",
        not_for={MEASURES: RUNS_AGAIN, FROM_LOGIT: ONE_LOGIT},
    )
    correction: CorrectionName = option(
        "auto",
        "For causal decoders, how to correct for the receptive field: uniform, sink, or none.",
        "--correction NAME",
        more="``None`` is the plain method.",
        shows="the one usual for the method",
        parse=parse_correction,
        not_for={
            MEASURES: Unless(RUNS_AGAIN, lambda given: given is None),
            AMOUNTS: Unless(
                "amounts are not shares of a receptive field; use 'sink', or leave it out",
                lambda given: given in (None, "sink"),
            ),
            FROM_LOGIT: Unless(ONE_LOGIT, lambda given: given is None),
            NOT_CAUSAL: "it is for causal decoders; leave it out",
        },
    )


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where scores start."""

    layers: Layers = option(
        None,
        "Layers to compute and save: all, or numbers such as 1,3,6.",
        "--layers LAYERS",
        shows="the layer to explain",
        parse=parse_layers,
        not_for={
            ANSWER: EACH_TOKEN,
            ROUTES: ONE_SCORE,
            EXPLORE: WHOLE_VIEW,
            MEASURES: Unless(RUNS_AGAIN, lambda given: given == "all"),
            FROM_LOGIT: ONE_LOGIT,
        },
    )
    source: SourceName = option(
        "position",
        "Where scores start: at the position in one layer, or (decoders only) at the target's "
        "logit.",
        "--source position|logit",
        more="The edges of a logit lead to every layer (docs/definitions.md). This works for "
        "rollout and flow on edges that decompose attention blocks.",
        described=True,
        not_for={
            EXPLORE: "the view shows scores of positions, layer by layer",
            NO_LOGIT: "it is for decoders of texts; leave it out",
        },
    )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How exactly scores are computed, and in which unit."""

    steps: int | None = option(
        None,
        "For integrated: the number of points on the line.",
        "--steps N",
        shows="as many as it needs",
        not_for={EXPLORE: WHOLE_VIEW, WITHOUT_STEPS: "it needs none; leave it out"},
    )
    normalize: bool = option(
        False,
        "Divide each position's scores by their sum.",
        "--normalize",
        not_for={
            ROUTES: ONE_SCORE,
            EXPLORE: WHOLE_VIEW,
            SIGNED: "its scores have signs, so shares of their sum mean nothing; leave it out",
            AMOUNTS: "amounts have signs, so shares of their sum mean nothing; leave it out",
        },
    )


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """What has a score."""

    words: bool = option(
        False,
        "Score words instead of tokens.",
        "--words -w",
        more="Edges to a word are those to all its tokens. Flow is the maximum flow to the whole "
        "word, which is at most the sum over its tokens.",
        panel="Output",
        not_for={
            ANSWER: "tokens and parts are scored, and a part may be a word (parts=)",
            ROUTES: "routes pass through tokens",
            NO_OFFSETS: "it has no words: its tokenizer gave no offsets in the text; leave it out",
            PIECES: "it has no words: an image or a sound consists of pieces; leave it out",
        },
    )


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where the model runs."""

    device: str | None = option(
        None,
        "Where the model runs: cpu, cuda, cuda:1, mps.",
        "--device NAME",
        more="Flow is solved where its attention is. Models that are loaded already stay where "
        "they are.",
        panel=LOADING,
        shows="cpu",
        parse=parse_device,
        recorded=False,
    )


@dataclass(frozen=True, kw_only=True)
class WorkOptions(DeviceOptions):
    """Where and how the work is done, which changes no score."""

    strict: bool = option(
        False,
        "Refuse models that mix tokens outside attention; in a run, stop at a bad row.",
        "--strict",
        more="Otherwise the result's ``warnings`` say so.",
        panel=INPUT,
    )
    batch_size: int = option(
        16,
        "The largest number of inputs that run through the model together.",
        "--batch-size N",
        panel=WORK,
        least=1,
    )
    threads: int | None = option(
        None,
        "How many threads each process uses.",
        "--threads N",
        more="They are used to solve flow; ``None`` is one per core.",
        panel=WORK,
        shows="one per core",
        least=1,
        recorded=False,
    )
    progress: bool = option(
        False, "Show a progress bar and what was loaded.", panel=WORK, recorded=False
    )


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """The method, and what it reads."""

    method: MethodName = option(
        "auto",
        "The method: {methods}.",
        "--method METHOD",
        more='``"auto"`` is what works best for the kind of model, with its edges; if only edges '
        "are named, the method that reads them best is used (docs/reference/methods.md).",
        shows="what works best for the model",
        served=True,
    )
    edges: EdgesName = option(
        "auto",
        "What the edges are made of: {edges}.",
        "--edges RULE",
        more='``"auto"`` is what works best for the kind of model; if only a method is named, it '
        "reads the edges it was published with (docs/reference/methods.md).",
        shows=OWN_OR_BEST,
        served=True,
        not_for={MEASURES: Unless(RUNS_AGAIN, lambda given: given == "attention")},
    )


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(
    WorkOptions,
    ReadingOptions,
    WordOptions,
    ScoreOptions,
    SourceOptions,
    LayerOptions,
    GraphOptions,
    TargetOptions,
    MethodOptions,
):
    """The options of `attnflow.explain`."""


@dataclass(frozen=True, kw_only=True)
class RoutesOptions(ExplainOptions):
    """The options of `attnflow.routes`."""

    to: int | str = field(
        metadata=required(
            "The input token that the score is traced back to, or its number, from 0.",
            "--to -t TOKEN",
            parse=parse_position,
        )
    )
    verify: bool | None = option(
        None,
        "Remove the cut from the model and show what it predicts then, next to the same number of "
        "random edges.",
        "--verify/--no-verify",
        more="The result is in ``knockout``. By default this is done if it takes about a second.",
        shows="if it is quick",
    )


@dataclass(frozen=True, kw_only=True)
class ExploreOptions(ExplainOptions):
    """The options of `attnflow.explore`."""

    compare: Any = option(None, "Another text to show beside the first one.")


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """What a prompt is made of."""

    parts: Parts | None = option(
        None,
        'Named parts of the prompt: ``{"document": "its text"}``, or where each starts and ends in '
        "the prompt's text. The messages of a chat are named after their roles.",
        panel=INPUT,
        not_for={
            NO_PROMPTS: "it answers no prompts; name a stretch of the text by itself: "
            "Edges(keys='its words')"
        },
    )


@dataclass(frozen=True, kw_only=True)
class RoleOptions(PromptOptions):
    """What a prompt is made of, and what its parts are to an answer."""

    roles: Mapping[str, Role | str] | None = option(
        None,
        "What parts are to the answer, if their names don't say it: "
        '``{"tone": "instructions"}``; ``"source"``, ``"instructions"`` or ``"question"``.',
        more="By default system messages are instructions, the last message of the user is the "
        "question, and documents, tool messages and all other parts are sources. The conclusion "
        "compares sources.",
    )


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """How an answer is written."""

    sampling: Mapping[str, Any] | None = option(
        None,
        'How the answer\'s tokens are sampled, e.g. ``{"temperature": 0.7, "top_p": 0.9}``; '
        "without it the most likely token is taken each time.",
    )
    seed: int | None = option(
        None,
        "The random seed.",
        "--seed N",
        more="By default it is a new one each time. The random state of torch is left alone.",
        panel=INPUT,
        shows=False,
    )
    stream: Stream | None = option(
        None,
        "Called with each piece of the answer's text as it is written, e.g. "
        '``functools.partial(print, end="", flush=True)``.',
    )


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(WritingOptions, RoleOptions, ExplainOptions):
    """The options of `attnflow.explain_answer`."""

    answer: str | Sequence[Any] | None = option(
        None,
        "The answer to explain. For encoder–decoders without --generate, the token after it is "
        "explained.",
        "--answer TEXT",
        more="A list gives one for each prompt; a list of integers is one answer's token ids.",
        panel=INPUT,
        shows="the model's own answer",
    )
    generate: int | None = option(
        None,
        "Explain an answer: the one given with --answer, or one of at most N tokens that the model "
        "writes.",
        "--generate N",
        panel=INPUT,
        shows=False,
    )
    each: Literal["sentences", "paragraphs", "tokens", "answer"] | str = option(
        "sentences",
        "What is explained one by one: the answer's sentences, paragraphs or tokens, or the whole "
        "answer.",
        "--each sentences|paragraphs|tokens|answer",
        more="Scores explain the mean over a piece's tokens. By default each piece takes one "
        "backward pass; a token costs as much as a sentence (docs/costs.md).",
        panel=INPUT,
    )
    units: Literal["sentences", "paragraphs"] | str | None = option(
        None,
        "Cut the prompt's parts into sentences or paragraphs, each a part of its own.",
        "--units sentences|paragraphs",
        more="List items, table rows and lines of code count as units. A part named *manual* "
        "becomes *manual, sentence 1*, and so on; flow to a sentence is exact.",
        panel=INPUT,
        shows=False,
    )
    parts_only: bool = option(
        False, "Score whole parts and not single tokens, which is quicker for flow."
    )
    through: Literal["tokens", "prompt"] | str = option(
        "tokens",
        "Where an answer's scores end: at all tokens before it, or only at those of the prompt.",
        "--through tokens|prompt",
        more='With ``"prompt"``, the scores of tokens that the model wrote itself are passed on to '
        "the tokens these came from (docs/definitions.md).",
        not_for={
            AMOUNTS: "what an answer's token took from another is an amount, not a share that "
            "could be handed on; leave it out",
            FROM_LOGIT: "they start at one logit, above all layers; leave one of them out",
        },
    )
    deletions: bool | None = option(
        None,
        "Delete each named part, a forward pass each, and measure by how much the answer's "
        "log-probability falls.",
        "--deletions/--no-deletions",
        shows="for two to twelve parts",
    )


@dataclass(frozen=True, kw_only=True)
class CiteOptions(WritingOptions, RoleOptions, DeviceOptions, ReadingOptions):
    """The options of `attnflow.cite`."""

    answer: str | Sequence[Any] | None = option(
        None,
        "The answer, if the model should not write one.",
        "--answer TEXT",
        more="A list gives one for each prompt.",
        panel=INPUT,
        shows="what the model writes",
    )
    generate: int | None = option(
        None,
        "Let the model write an answer of at most N tokens.",
        "--generate N",
        panel=INPUT,
        shows="200",
    )
    least: float = option(
        3.0,
        "Cite a source if a sentence's log-probability drops by this much or more without it; 3 "
        "is a sentence 20 times less likely.",
        "--least NATS",
        more="The drop must also be at least a fifth of the drop without any source.",
    )
    checks: int = option(
        5,
        "How many sources, and how many sentences of a source, are deleted one by one.",
        "--checks N",
        more="If there are more, flow on relevance chooses which are tried first, and others "
        "follow only if these don't account for the answer.",
        panel=WORK,
        least=1,
    )
    progress: bool = option(False, "Show a progress bar.", panel=WORK, recorded=False)


@dataclass(frozen=True, kw_only=True)
class StepsOptions(WritingOptions, PromptOptions, WorkOptions, ReadingOptions, MethodOptions):
    """The options of `attnflow.steps`."""

    answer: str | Sequence[int] | None = option(
        None,
        "The answer, with its thoughts.",
        "--answer TEXT",
        panel=INPUT,
        shows="the model's own answer",
    )
    generate: int | None = option(
        None, "The most tokens that the model may write.", "--generate N", panel=INPUT, shows="256"
    )
    by: Literal["auto", "numbers", "paragraphs", "sentences"] | str = option(
        "auto",
        "How thoughts are cut into steps: auto, numbers, paragraphs, sentences.",
        "--by HOW",
        more='``"auto"`` takes numbered steps, or else three paragraphs or more, or sentences.',
        panel=INPUT,
    )
    conclusion: str | None = option(
        None,
        "Where the conclusion begins, in the answer's own words.",
        "--conclusion TEXT",
        more="Without it, the conclusion is what follows ``</think>``, or the last step.",
        panel=INPUT,
        shows="after </think>, or the last step",
    )


@dataclass(frozen=True, kw_only=True)
class KnockoutOptions(DeviceOptions, PromptOptions, ReadingOptions, TargetOptions):
    """The options of `attnflow.knockout` beside the edges that are removed."""

    answer: str | None = option(
        None,
        "Measure this answer of a language model, all its tokens together.",
        "--answer TEXT",
        panel=INPUT,
        shows=False,
    )
    generate: int | None = option(
        None,
        "Measure the answer that the model writes, of at most N tokens.",
        "--generate N",
        more="By default, an encoder–decoder's own answer is measured.",
        panel=INPUT,
        shows=False,
    )
    random: int = option(
        5, "How many random sets of the same size to compare with.", "--random N", panel=WORK
    )
    seed: int = option(0, "The random seed.", "--seed N", panel=WORK)
    batch_size: int = option(16, "The largest number of sets that run through the model together.")


@dataclass(frozen=True, kw_only=True)
class SimilarityOptions(WorkOptions, ReadingOptions, WordOptions, GraphOptions, MethodOptions):
    """The options of `attnflow.similarity`."""

    method: MethodName = option(
        "rollout",
        "The method: {methods}.",
        "--method METHOD",
        more="It must read edges, because it traces positions back to tokens; each position's "
        "scores are divided by their sum.",
    )
    edges: EdgesName = option(
        "auto",
        "What the edges are made of: {edges}.",
        "--edges RULE",
        more='``"auto"`` is ALTI, or attention if ALTI is refused for the model.',
        shows="alti, or attention if alti is refused for the model",
    )
    pooling: Literal["auto", "mean", "first", "last"] | str = option(
        "auto",
        "How states are pooled into an embedding: their mean, the first or the last one.",
        "--pooling NAME",
        more='``"auto"`` follows the files of sentence-transformers beside the model, and takes '
        "the mean if there are none.",
        shows="as the model's files say, else mean",
    )


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The columns of a data set."""

    text_column: str | None = option(
        None,
        "The column with the text.",
        "--text-column NAME",
        panel=INPUT,
        shows="text, or the only column of texts",
    )
    target_column: str | None = option(
        None,
        "The column with the target, for methods that depend on one.",
        "--target-column NAME",
        panel=INPUT,
        shows=False,
    )
    pair_column: str | None = option(
        None,
        "The column with the second text, for models that read two texts as one input.",
        "--pair-column NAME",
        more="Rows of an iterable may then be tuples of two texts.",
        panel=INPUT,
        shows=False,
    )
    format: Literal["jsonl", "csv", "tsv", "parquet", "text", "dataset"] | str | None = option(
        None,
        "The format: jsonl, csv, tsv, parquet, text or dataset.",
        "--format NAME",
        panel=INPUT,
        shows="by the file's name",
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(
    DataOptions,
    WorkOptions,
    ReadingOptions,
    WordOptions,
    ScoreOptions,
    SourceOptions,
    LayerOptions,
    GraphOptions,
    AskingOptions,
):
    """The options of `attnflow.run`: those of `attnflow.explain` hold for all rows."""

    methods: MethodName | Sequence[MethodName] | None = option(
        None,
        "The method: {methods}.",
        "--method METHOD",
        more="One or several; ``None`` is what `attnflow.explain` uses or, if edges are named, the "
        "methods that are shown by default.",
        shows="what works best for the model",
    )
    edges: EdgesName | Sequence[EdgesName] = option(
        "auto",
        "What the edges are made of: {edges}.",
        "--edges RULE",
        more="One or several; each takes one more pass through the model.",
        shows=f"{OWN_OR_BEST}; repeat for several",
        recorded=False,  # each rule is, beside the options that all of them share
    )
    id_column: str | None = option(
        None, "A column that names each row.", "--id-column NAME", panel=INPUT, shows=False
    )
    shard_size: int = option(
        1000,
        "How many rows each output file has.",
        "--shard-size N",
        more="A crash loses the work on one file at most.",
        panel=WORK,
        least=1,
    )
    workers: int = option(
        1,
        "How many worker processes to start; each loads the model.",
        "--workers N",
        panel=WORK,
        least=1,
    )
    threads: int = option(
        1,
        "How many threads each process uses.",
        "--threads N",
        more="Another number may change the last bits of a score.",
        panel=WORK,
        least=1,
        recorded=False,  # for torch and flow alike, beside these options
    )
    ray: str | None = option(
        None,
        "Run the workers on a Ray cluster: auto, host:6379, or local to start one here.",
        "--ray ADDRESS",
        panel=WORK,
        shows=False,
    )
    gpus_per_worker: float = option(
        0,
        "On a Ray cluster: how many GPUs each worker gets, such as 1 or 0.5.",
        "--gpus-per-worker N",
        more="Models run on them.",
        panel=WORK,
        least=0,
    )
    plugins: Sequence[str] = option(
        (), "Modules or files that register methods or edges, for every worker."
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(DeviceOptions, DataOptions, ReadingOptions, SourceOptions):
    """The options of `attnflow.evaluate`."""

    methods: MethodName | Sequence[MethodName] | None = option(
        None,
        "The method: {methods}.",
        "--method METHOD",
        more="By default the paper's three, and what `attnflow.explain` uses, with its own edges. "
        "Always in the table: tokens in random order, from the first, from the last; gradient × "
        "input; integrated gradients; the attention of the last layer.",
        shows="the paper's three, and what works best for the model, with its own edges",
    )
    edges: EdgesName | Sequence[EdgesName] | None = option(
        None,
        "What the edges are made of: {edges}.",
        "--edges RULE",
        more='By default attention, so that methods are compared on the same edges; ``"auto"`` '
        "stands for the edges and the method that `attnflow.explain` uses by default.",
        shows="attention for all methods, to compare them on the same edges; repeat for several",
    )
    metrics: str | Sequence[str] | None = option(
        None,
        "The metric; repeat for several.",
        "--metric METRIC",
        more="Names in ``attnflow.METRICS``.",
        shows="all that can be measured",
    )
    replacement: FillerName | Sequence[FillerName] = option(
        "unk",
        "What takes the place of removed tokens: unk, mask, delete or mean.",
        "--replacement NAME",
        more='``"mean"`` is the mean of all word embeddings. Each has columns of its own.',
        shows="unk; repeat for several",
    )
    rationale_column: str | None = option(
        None,
        "A column with a number for each word: the words that people marked.",
        "--rationale-column NAME",
        more="Words are separated by white space; those with at least 0.5, or at most −0.5, count "
        "as marked.",
        panel=INPUT,
        shows=False,
    )
    limit: int | None = option(
        None, "Evaluate at most this many rows.", "--limit N", panel=INPUT, shows="all", least=1
    )
    seed: int = option(0, "The random seed.")
    progress: bool = option(False, "Show a progress bar.")


@dataclass(frozen=True, kw_only=True)
class FitOptions(DeviceOptions):
    """The options of `attnflow.fit`."""

    edges: EdgesName = option(
        "attention",
        "What the edges are made of: {edges}.",
        "--edges RULE",
        more="The rule must have a map for each head; these are weighted.",
    )
    replacement: ReplacementName = option(
        "unk",
        "What takes the place of a token that is blanked out: unk, mask, pad or delete.",
        "--replacement NAME",
    )
    held_out: float = option(
        0.25,
        "The share of texts that are held out; the figures are measured on them.",
        "--held-out SHARE",
    )
    ridge: float = option(
        1.0,
        "How strongly weights are pulled to zero, relative to the mean size of what they weight.",
    )
    seed: int = option(0, "The random seed.", "--seed N", panel=WORK)
    save: str | Path | None = option(
        None,
        "The file to write. Measurements are kept beside it until then, so that an interrupted "
        "run can continue.",
    )
    overwrite: bool = option(False, "Replace a file that exists.")
    progress: bool = option(False, "Show a progress bar.")
