"""Small models of any type, from its configuration with the usual sizes made small."""

import functools

import torch
import transformers as tf
from transformers import CONFIG_MAPPING, PretrainedConfig

from zoo.overrides import CLASSES, OVERRIDES

MOST = 100_000_000  # parameters of a small model

WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "model_dim")
DEPTHS = (
    *("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"),
    *("num_decoder_layers", "num_encoder_layers", "depth"),
)
HEADS = (
    *("num_attention_heads", "num_heads", "n_head", "n_heads", "encoder_attention_heads"),
    *("decoder_attention_heads", "num_encoder_attention_heads", "attention_heads"),
)
INNER = (
    *("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim"),
    *("n_inner", "d_inner", "ffn_hidden_size", "feed_forward_size", "shared_intermediate_size"),
)
SMALL = {
    **dict.fromkeys(WIDTHS, 32),
    **dict.fromkeys(DEPTHS, 2),
    **dict.fromkeys(HEADS, 4),
    **dict.fromkeys(INNER, 64),
    "vocab_size": 100,
    "src_vocab_size": 100,
    "tgt_vocab_size": 100,
    "decoder_vocab_size": 100,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "n_ctx": 64,
    "max_sequence_length": 64,
    "max_source_positions": 64,
    "max_target_positions": 64,
    "seq_length": 64,
    "embedding_size": 16,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "d_head": 8,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "qk_head_dim": 16,
    "n_group": 1,
    "topk_group": 1,
    "num_global_layers": 1,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "expert_ffn_hidden_size": 32,
    "shared_expert_intermediate_size": 32,
    "moe_k": 2,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 3,
    "projection_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 3,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "mask_token_id": 4,
    "image_token_id": 90,
    "video_token_id": 91,
    "audio_token_id": 92,
    "image_token_index": 90,
    "type_vocab_size": 2,
    "use_mamba_kernels": False,
    "sliding_window": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "mamba_d_head": 16,
    "mamba_n_heads": 4,
    "mamba_d_state": 8,
    "mamba_d_ssm": 64,
    "mamba_chunk_size": 8,
    "state_size": 8,
    "time_step_rank": 4,
    "use_pretrained_backbone": False,
    "vocab_size_per_layer_input": 100,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 0,
    "out_hidden_size": 32,
    "forced_bos_token_id": None,
}


@functools.cache
def small_config(kind, name):
    """The configuration of a class with small sizes; some are parts of the type's."""
    config_class = getattr(tf, name).config_class or CONFIG_MAPPING[kind]
    if kind.endswith("_text"):  # one class names the configuration of the whole model
        config_class = CONFIG_MAPPING[kind]
    config = _small(
        config_class, OVERRIDES.get(config_class.model_type, {}) | CLASSES.get(name, {})
    )
    if name.endswith(("ForCausalLM", "LMHeadModel")) and hasattr(config, "is_decoder"):
        config.is_decoder = True  # as checkpoints of such classes have it
    return config


def _small(config_class, overrides):
    try:
        default = config_class()
    except Exception:  # noqa: BLE001 - some need parts that are given below
        parts = {
            name: _small(CONFIG_MAPPING[value["model_type"]], value)
            for name, value in overrides.items()
            if isinstance(value, dict) and "model_type" in value
        }
        return config_class(**(overrides | parts))
    options = {name: value for name, value in SMALL.items() if _is_size(default, name)}
    for name, value in vars(default).items():
        if isinstance(value, PretrainedConfig):
            part = overrides.get(name, {})
            options[name] = _small(type(value), OVERRIDES.get(value.model_type, {}) | part)
    given = {
        name: value
        for name, value in overrides.items()
        if name not in options or not isinstance(options[name], PretrainedConfig)
    }
    return config_class(**(options | given))


def _is_size(config, name):
    """Whether a number may stand there: not for lists (one per stage), nor for what is derived."""
    if isinstance(getattr(type(config), name, None), property):
        return False
    try:
        value = getattr(config, name)
    except Exception:  # noqa: BLE001 - it has none, or one per layer
        return False
    return value is None or (not isinstance(value, list | tuple | dict | str) and value != -1)


def small_model(kind, name, attention="eager"):
    """A model of a class, with seeded weights; larger ones than usual make attention uneven."""
    import copy

    model_class = getattr(tf, name)
    config = copy.deepcopy(small_config(kind, name))
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class._from_config(copy.deepcopy(config)).parameters())
    if size > MOST:
        msg = f"{size:,} parameters"
        raise OverflowError(msg)
    torch.manual_seed(0)
    model = model_class._from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and parameter.is_floating_point():
                parameter.mul_(3)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.decoder_start_token_id = 3
    return model.eval()
