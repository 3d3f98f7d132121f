"""Small models of every family, built from their configuration with seeded weights."""

import copy

import torch
import transformers as tf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

TEXT = "the keys to the cabinet are here"
WORDS = "the a keys key to cabinet are is here cat ##s ##ing play on mat of old red , . !"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split(" ")]


def word_piece():
    """A BERT tokenizer of a few words."""
    core = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return _wrapped(core, cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def pair_piece():
    """The same for pairs: with a token between them, and numbers that tell them apart."""
    tokenizer = word_piece()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return tokenizer


def plain():
    """The same words, one token each, nothing put before or after them."""
    core = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return _wrapped(core)


def _wrapped(core, **special):
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **special,
    )


SIZES = {"vocab_size": 100, "max_position_embeddings": 64}
USUAL = SIZES | {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "pad_token_id": 0,
}
DECODER = USUAL | {"num_key_value_heads": 2, "head_dim": 8, "bos_token_id": 2, "eos_token_id": 3}

ENCODERS = {
    "bert": lambda: (tf.BertModel, tf.BertConfig(**USUAL)),
    "roberta": lambda: (tf.RobertaModel, tf.RobertaConfig(**USUAL)),
    "distilbert": lambda: (
        tf.DistilBertModel,
        tf.DistilBertConfig(**SIZES, dim=32, n_layers=3, n_heads=4, hidden_dim=64),
    ),
    "albert": lambda: (tf.AlbertModel, tf.AlbertConfig(**USUAL, embedding_size=16)),
    "electra": lambda: (tf.ElectraModel, tf.ElectraConfig(**USUAL, embedding_size=16)),
    "deberta-v2": lambda: (
        tf.DebertaV2Model,
        tf.DebertaV2Config(**USUAL, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    ),
    "modernbert": lambda: (
        tf.ModernBertModel,
        tf.ModernBertConfig(
            **USUAL,
            bos_token_id=2,
            eos_token_id=3,
            cls_token_id=2,
            sep_token_id=3,
            global_attn_every_n_layers=2,
            local_attention=4,
        ),
    ),
    "mpnet": lambda: (tf.MPNetModel, tf.MPNetConfig(**USUAL)),
}
DECODERS = {
    "gpt2": lambda: (
        tf.GPT2LMHeadModel,
        tf.GPT2Config(vocab_size=100, n_embd=32, n_layer=3, n_head=4, n_positions=64),
    ),
    "llama": lambda: (tf.LlamaForCausalLM, tf.LlamaConfig(**DECODER)),
    "qwen2": lambda: (tf.Qwen2ForCausalLM, tf.Qwen2Config(**DECODER)),
    "qwen3": lambda: (tf.Qwen3ForCausalLM, tf.Qwen3Config(**DECODER)),
    "gemma": lambda: (tf.GemmaForCausalLM, tf.GemmaConfig(**DECODER)),
    "bloom": lambda: (
        tf.BloomForCausalLM,
        tf.BloomConfig(vocab_size=100, hidden_size=32, n_layer=3, n_head=4, pad_token_id=0),
    ),
}
PAIRS = {
    "t5": lambda: (
        tf.T5ForConditionalGeneration,
        tf.T5Config(
            vocab_size=100,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=3,
            num_decoder_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        ),
    ),
    "bart": lambda: (
        tf.BartForConditionalGeneration,
        tf.BartConfig(
            **SIZES,
            d_model=32,
            encoder_layers=3,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            decoder_start_token_id=3,
        ),
    ),
}
PICTURE = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 3}
VISION = {
    "vit": lambda: (
        tf.ViTForImageClassification,
        tf.ViTConfig(**PICTURE, num_attention_heads=4, intermediate_size=64),
    ),
    "deit": lambda: (
        tf.DeiTForImageClassificationWithTeacher,
        tf.DeiTConfig(**PICTURE, num_attention_heads=4, intermediate_size=64),
    ),
    "dinov2": lambda: (
        tf.Dinov2ForImageClassification,
        tf.Dinov2Config(**PICTURE, num_attention_heads=4),
    ),
    "dinov2-registers": lambda: (
        tf.Dinov2WithRegistersForImageClassification,
        tf.Dinov2WithRegistersConfig(**PICTURE, num_attention_heads=4, num_register_tokens=3),
    ),
}
FAMILIES = ENCODERS | DECODERS | PAIRS | VISION
EAGER_ONLY = ("deberta-v2", "mpnet", "bloom")  # transformers has no other attention for these


def build(name, attention="sdpa", *, head=None):
    """A model of a family, the same weights whatever the attention; ``head`` replaces its class."""
    model_class, config = FAMILIES[name]()
    attention = "eager" if name in EAGER_ONLY else attention
    torch.manual_seed(0)
    built = (head or model_class)._from_config(copy.deepcopy(config), attn_implementation=attention)
    with torch.no_grad():
        for parameter in built.parameters():  # larger weights make attention less even
            if parameter.dim() > 1:
                parameter.mul_(4)
    return built.eval()


def ids(batch=2, length=7):
    """Token numbers with padding at the end of the second item."""
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randint(5, 26, (batch, length), generator=generator)
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[1, -2:] = 0
    return {"input_ids": numbers, "attention_mask": mask}
