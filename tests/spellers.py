"""Tokenizers of every kind, trained on a few sentences: how each writes blanks and words."""

import functools
import io
import json

import transformers as tf
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SENTENCES = [
    "The capital of France is Paris.",
    "The capital of Italy is Rome, and Rome is old.",
    "Paris is in France; the parish is in Paris, too.",
    "Is it Paris? It is: Par is a part of Paris.",
    "Answer:\nParis\n\nQuestion: which city is the capital?\n",
    "user says hello, assistant says that the capital is Paris",
]
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def llama2():
    """Prepend and Replace as normalizers, byte fallback; BOS in front."""
    trained = _bpe(pre_tokenizers.Metaspace(), ["▁"])
    vocabulary = {token: at for at, token in enumerate([*SPECIAL, *BYTES])}
    for token in trained["vocab"]:
        vocabulary.setdefault(token, len(vocabulary))
    merges = [tuple(pair) for pair in trained["merges"]]
    core = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    core.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    core.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _with_bos(core)


def metaspace(scheme):
    """SentencePiece's mark for a blank, put before every text, before the first, or before none."""
    trained = _bpe(pre_tokenizers.Metaspace(prepend_scheme=scheme), ["▁", "\n"])
    core = _core(trained)
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    core.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return _with_bos(core)


def byte_level(*, prefix):
    """As GPT-2's, or with a blank before every text, as RoBERTa's may have."""
    before = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    core = _core(_bpe(before, pre_tokenizers.ByteLevel.alphabet()))
    core.pre_tokenizer, core.decoder = before, decoders.ByteLevel()
    return _wrapped(core)


def word_piece():
    """As BERT's: small letters, no blanks, marks on the pieces that continue a word."""
    core = Tokenizer(models.WordPiece(unk_token="<unk>"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=SPECIAL, show_progress=False, continuing_subword_prefix="##"
    )
    core.train_from_iterator(SENTENCES, trainer)
    return _wrapped(core)


def unigram():
    """A model of SentencePiece itself, with its own normalization (blanks are merged, NFKC)."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as formats

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20),
        model_writer=made,
        vocab_size=80,
        model_type="unigram",
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        pad_piece="<pad>",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    stored = formats.ModelProto.FromString(made.getvalue())
    core = Tokenizer(models.Unigram([(each.piece, each.score) for each in stored.pieces], 0))
    core.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(stored.normalizer_spec.precompiled_charsmap),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    return _with_bos(core)


KINDS = {
    "llama2": llama2,
    "metaspace-always": lambda: metaspace("always"),
    "metaspace-first": lambda: metaspace("first"),
    "metaspace-never": lambda: metaspace("never"),
    "byte-level": lambda: byte_level(prefix=False),
    "byte-level-prefix": lambda: byte_level(prefix=True),
    "word-piece": word_piece,
    "unigram": unigram,
}
LOSSLESS = [name for name in KINDS if name not in ("word-piece", "unigram")]


@functools.cache
def build(name):
    return KINDS[name]()


def _bpe(before, alphabet):
    """Vocabulary and merges, as they are saved."""
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    # No line break is part of a longer token.
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split("\n", "isolated"), before])
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    core.train_from_iterator(SENTENCES * 4, trainer)
    return json.loads(core.to_str())["model"]


def _core(trained):
    merges = [tuple(pair) for pair in trained["merges"]]
    return Tokenizer(models.BPE(trained["vocab"], merges, unk_token="<unk>"))


def _with_bos(core):
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", core.token_to_id("<s>"))]
    )
    return _wrapped(core)


def _wrapped(core):
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )
