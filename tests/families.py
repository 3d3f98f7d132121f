"""More small models than `tiny` has; attention is uneven, biases and norm weights are random."""

import copy

import torch
import transformers as tf

import tiny

USUAL, DECODER, PICTURE = tiny.USUAL, tiny.DECODER, tiny.PICTURE
SMALL_VIT = PICTURE | {"num_attention_heads": 4, "intermediate_size": 64}
ROTARY = {"vocab_size": 100, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
MORE = {
    "deberta": lambda: (
        tf.DebertaModel,
        tf.DebertaConfig(**USUAL, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    ),
    "mobilebert": lambda: (
        tf.MobileBertModel,
        tf.MobileBertConfig(**USUAL, embedding_size=32, intra_bottleneck_size=32),
    ),
    "gemma2": lambda: (tf.Gemma2ForCausalLM, tf.Gemma2Config(**DECODER, sliding_window=4)),
    "gemma3": lambda: (tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(**DECODER, sliding_window=4)),
    "olmo2": lambda: (tf.Olmo2ForCausalLM, tf.Olmo2Config(**DECODER)),
    "cohere": lambda: (tf.CohereForCausalLM, tf.CohereConfig(**DECODER)),
    "gpt-oss": lambda: (
        tf.GptOssForCausalLM,
        tf.GptOssConfig(**DECODER, num_local_experts=2, num_experts_per_tok=1, sliding_window=4),
    ),
    "gpt-neox": lambda: (tf.GPTNeoXForCausalLM, tf.GPTNeoXConfig(**USUAL)),
    "gpt-neox-sequential": lambda: (
        tf.GPTNeoXForCausalLM,
        tf.GPTNeoXConfig(**USUAL, use_parallel_residual=False),
    ),
    "gpt-j": lambda: (tf.GPTJForCausalLM, tf.GPTJConfig(**ROTARY, rotary_dim=4)),
    "phi": lambda: (tf.PhiForCausalLM, tf.PhiConfig(**USUAL)),
    "falcon": lambda: (tf.FalconForCausalLM, tf.FalconConfig(**USUAL)),
    "opt": lambda: (
        tf.OPTForCausalLM,
        tf.OPTConfig(**USUAL, ffn_dim=64, word_embed_proj_dim=32),
    ),
    "opt-350m": lambda: (
        tf.OPTForCausalLM,
        tf.OPTConfig(**USUAL, ffn_dim=64, word_embed_proj_dim=32, do_layer_norm_before=False),
    ),
    "t5-encoder": lambda: (tf.T5EncoderModel, tiny.PAIRS["t5"]()[1]),
    "beit": lambda: (
        tf.BeitForImageClassification,
        tf.BeitConfig(**SMALL_VIT, layer_scale_init_value=0.5),
    ),
}
FAMILIES = tiny.FAMILIES | MORE
EAGER_ONLY = (*tiny.EAGER_ONLY, "deberta", "mobilebert", "gpt-oss", "gpt-j", "gemma2")


def build(name, attention="sdpa", *, head=None, precision=None):
    """A model of a family; the same weights whatever the attention."""
    model_class, config = FAMILIES[name]()
    attention = "eager" if name in EAGER_ONLY else attention
    torch.manual_seed(0)
    built = (head or model_class)._from_config(copy.deepcopy(config), attn_implementation=attention)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in built.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                parameter.copy_(noise * 0.25)
            else:  # a bias, a norm's weight
                parameter.add_(noise * 0.3)
    if precision is None:  # experts are computed in float32
        precision = torch.float32 if name == "gpt-oss" else torch.float64
    return built.to(precision).eval()
