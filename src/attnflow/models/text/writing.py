"""How a model writes an answer: how long, the most likely tokens or sampled ones, and streamed.

Tokens are sampled with a random generator of their own: no state that a program shares is read or
changed, so that threads don't disturb each other and a seed always gives the same answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError, ModelError, shown
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    import torch


Stream = Callable[[str], None]  # called with every piece of the answer's text as it is written
# What reshapes the distribution that tokens are sampled from, in the order of transformers.
WARPERS = {
    "temperature": "TemperatureLogitsWarper",
    "top_k": "TopKLogitsWarper",
    "top_p": "TopPLogitsWarper",
    "min_p": "MinPLogitsWarper",
    "typical_p": "TypicalLogitsWarper",
}
# What changes the scores of tokens whether they are sampled or not; left to transformers.
PASSED_ON = (
    "repetition_penalty",
    "no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "min_new_tokens",
    "bad_words_ids",
    "suppress_tokens",
    "begin_suppress_tokens",
    "eos_token_id",
)
SEEDS = 1 << 32


@dataclass(frozen=True)
class Writing:
    """What is written after a prompt.

    Attributes:
        length: The most tokens that the model writes.
        text: The answer, where it is given instead: as a text, or as token ids.
        sampling: How tokens are sampled (``temperature``, ``top_k``, ``top_p``, ``min_p``,
            ``typical_p``), or else their scores changed (``repetition_penalty``, …). Without any
            of the former the most likely token is written.
        seed: The seed for sampling; where none is given, one is chosen.
        stream: Called with the pieces of the answer while it is made.
        check: Called before every token that is written, and between pieces of the work that
            explains them; it may raise to end it.
    """

    length: int = 40
    text: str | tuple[int, ...] | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    stream: Stream | None = None
    check: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if not is_integer(self.length) or self.length < 1:
            msg = f"generate={shown(self.length)} must be a number of tokens, 1 or more"
            raise InputError(msg)
        filled = self.text.strip() if isinstance(self.text, str) else isinstance(self.text, tuple)
        if self.text is not None and not filled:
            msg = f"answer={shown(self.text)} must be a text that is not empty"
            raise InputError(msg)
        _check_sampling(self.sampling)
        if self.seed is not None and not (is_integer(self.seed) and 0 <= self.seed < SEEDS):
            msg = f"seed={shown(self.seed)} must be an integer from 0 to {SEEDS - 1}"
            raise InputError(msg)
        if self.text is not None and (self.sampling or self.seed is not None):
            msg = "sampling and seed are for what the model writes; with answer= leave them out"
            raise InputError(msg)
        if self.seed is not None and not self.samples:
            msg = (
                f"seed={self.seed} has no effect: the most likely tokens are written; sample them "
                "with sampling={'temperature': 1.0} (--temperature 1), or leave the seed out"
            )
            raise InputError(msg)
        if self.stream is not None and not callable(self.stream):
            msg = f"stream={shown(self.stream)} must be a function that takes a text, like print"
            raise InputError(msg)
        if self.samples and self.seed is None:
            # It is recorded, so that the answer can be written again.
            object.__setattr__(self, "seed", secrets.randbelow(SEEDS))

    @property
    def samples(self) -> bool:
        """Whether tokens are sampled."""
        return any(name in WARPERS for name in self.sampling)

    @property
    def ends(self) -> set[int]:
        """The tokens that end the answer in addition to the model's own."""
        stated = self.sampling.get("eos_token_id", ())
        return {stated} if is_integer(stated) else set(stated)

    def options(self, tokenizer: Any, *, skip_prompt: bool) -> dict[str, Any]:
        """What `generate` of transformers is called with in addition to the input."""
        found: dict[str, Any] = {
            name: value for name, value in self.sampling.items() if name in PASSED_ON
        }
        processors = [] if self.check is None else [_checking(self.check)]
        if self.samples:
            processors.append(_sampling(self.sampling, self.seed or 0))
        if processors:
            found["logits_processor"] = processors
        if self.stream is not None:
            found["streamer"] = _streamer(tokenizer, self.stream, skip_prompt=skip_prompt)
        return found


def _check_sampling(sampling: Any) -> None:
    if not isinstance(sampling, Mapping):
        msg = f"sampling={shown(sampling)} must be a dict, such as {{'temperature': 0.7}}"
        raise InputError(msg)
    allowed = (*WARPERS, *PASSED_ON)
    for name, value in sampling.items():
        if name not in allowed:
            msg = f"sampling has {shown(name)}, which is unknown; allowed: {', '.join(allowed)}"
            raise InputError(msg)
        if isinstance(value, bool):  # no number, though Python counts with it
            msg = f"sampling[{name!r}]={value} must be a number or a list of numbers"
            raise InputError(msg)
        real = isinstance(value, Real)
        if name in WARPERS and not (real and value > 0):
            msg = f"sampling[{name!r}]={shown(value)} must be a number above 0"
            raise InputError(msg)
        ends = list(value) if isinstance(value, list | tuple) else [value]
        if name == "eos_token_id" and not (ends and all(map(is_integer, ends))):
            msg = f"sampling[{name!r}]={shown(value)} must be a token's number, or a list of them"
            raise InputError(msg)


def _checking(check: Callable[[], None]) -> Any:
    """A processor that changes no scores: it runs before every token, and can end the writing."""
    from transformers.generation.logits_process import LogitsProcessor

    class Checking(LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            check()
            return scores

    return Checking()


def _sampling(sampling: Mapping[str, Any], seed: int) -> Any:
    """A processor that leaves only the token that it has sampled.

    Generation then takes the most likely token, which is this one.
    """
    import torch
    from transformers.generation import logits_process

    try:
        warpers = [
            getattr(logits_process, WARPERS[name])(sampling[name])
            for name in WARPERS
            if name in sampling
        ]
    except (ValueError, TypeError) as error:
        msg = f"sampling={shown(dict(sampling))} is not allowed: {error}"
        raise InputError(msg) from error
    generator = torch.Generator().manual_seed(seed)

    class Sampling(logits_process.LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            warped = scores.float()
            for warper in warpers:
                warped = warper(input_ids, warped)
            probabilities = warped.softmax(-1).cpu()
            sampled = torch.multinomial(probabilities, 1, generator=generator).to(scores.device)
            only = torch.full_like(scores, -torch.inf)
            return only.scatter(-1, sampled, 0.0)

    return Sampling()


def _streamer(tokenizer: Any, stream: Stream, *, skip_prompt: bool) -> Any:
    from transformers import TextStreamer

    class Streamer(TextStreamer):
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            if text:
                stream(text)

    return Streamer(tokenizer, skip_prompt=skip_prompt, skip_special_tokens=True)


def without_ends(ids: Sequence[int], ends: Set[int | None], model: str) -> list[int]:
    """What a model wrote without the tokens that end it; an error where nothing is left."""
    kept = list(ids)
    while kept and kept[-1] in ends:
        kept.pop()
    if not kept:
        msg = (
            f"{model} ends its answer immediately: there is nothing to explain. Give another "
            "prompt (for a chat model, messages: --chat), or your own answer: answer= (--answer)"
        )
        raise ModelError(msg)
    return kept


def cut_at(ids: Sequence[int], ends: Set[int | None], length: int | None) -> int | None:
    """How many tokens were written where these are the most there may be, and none ends them.

    >>> cut_at([5, 6], {0}, 2), cut_at([5, 0], {0}, 2), cut_at([5], {0}, 2)
    (2, None, None)
    """
    return length if length is not None and len(ids) >= length and ids[-1] not in ends else None


def end_tokens(tokenizer: Any, generation: Any) -> set[int | None]:
    """The tokens that end an answer, as tokenizer and generation configuration name them."""
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    for name in ("eos_token_id", "forced_eos_token_id"):
        stated = getattr(generation, name, None)
        ends.update(stated if isinstance(stated, list) else [stated])
    return ends


FORCED = "forced_bos_token_id"  # of many translators: the language that is written
ENDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", FORCED)
# What decides how fast tokens are computed, and not which; how many is always given.
INDIFFERENT = ("use_cache", "compile_config", "disable_compile", "max_length")
SUPPRESSED = ("suppress_tokens", "begin_suppress_tokens")


def plain_decoding(
    network: Any, given: Collection[str] = (), kept: Collection[str] = ()
) -> dict[str, Any]:
    """The options of `generate` that undo what a network's generation configuration sets.

    Checkpoints come with penalties, beams, forbidden tokens, time limits and much else, which
    `generate` of transformers obeys. Here the most likely token is written, one after the other:
    all of it is overridden, except the tokens that start and end an answer.

    Options that are ``given`` are left to whoever gives them, those that are ``kept`` as they are.
    Every field is undone that a configuration of this version of transformers has, so that
    one that is new changes nothing unnoticed.
    """
    from transformers import GenerationConfig

    stated = getattr(network, "generation_config", None)
    plain = vars(GenerationConfig())  # type: ignore[no-untyped-call]
    usual: dict[str, Any] = getattr(GenerationConfig, "_get_default_generation_params", dict)()
    left = {*ENDS, *INDIFFERENT, *given, *kept, "transformers_version"}
    found = {}
    for name, value in plain.items():
        neutral = usual.get(name) if value is None else value
        own = getattr(stated, name, None)
        off = own is None or own is False or own == neutral  # 0 may be a token
        if not off and name not in left and not name.startswith("_"):
            found[name] = neutral
    return found


def kept_decoding(network: Any, kept: Collection[str] = (FORCED,)) -> Mapping[str, Any] | None:
    """What a generation configuration still decides about an answer, to be recorded."""
    stated = getattr(network, "generation_config", None)
    found = {name: getattr(stated, name, None) for name in kept}
    return {name: value for name, value in found.items() if value is not None} or None
