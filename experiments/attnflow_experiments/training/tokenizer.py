"""The data's words as a tokenizer: lower case, one token per word, tags (NNP …) in upper case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PAD, UNK, CLS, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[MASK]")


def build_tokenizer(words: Iterable[str], max_length: int) -> Any:
    """Build a fast tokenizer that puts CLS first; unknown words become UNK.

    Tags are added tokens, which are matched before the text is lower-cased. Punctuation and the
    endings that the data separates ("'s", "n't") are split off, so that plain text works too.
    """
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(SPECIAL)}
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(r"[,;:!?()\[\]\"]|(?<=\w)[.'](?=$)"), "isolated"),
            pre_tokenizers.Split(Regex(r"(?<=\w)('(s|m|ve|re|d|ll)|n't)$"), "isolated"),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A", special_tokens=[(CLS, vocabulary[CLS])]
    )
    tags = [word for word in vocabulary if word.isupper() and word not in SPECIAL]
    tokenizer.add_tokens([AddedToken(tag, single_word=True, normalized=False) for tag in tags])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token=PAD,
        unk_token=UNK,
        cls_token=CLS,
        mask_token=MASK,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
