"""What configurations need beside small sizes, so that their parts fit each other."""

LATENT = (
    *("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite"),
    *("glm_moe_dsa", "longcat_flash", "minicpm3", "mistral_large4_text", "youtu"),
)
SECTIONED = (
    *("qwen2_vl_text", "qwen2_5_vl_text", "glm4v_text", "glm4v_moe_text", "glm_ocr_text"),
    *("glm_image_text", "paddleocr_vl_text", "cosmos3_edge_text", "hunyuan_vl_text"),
)
ROTARY = {  # one of three positions for each pair of the four that heads of 8 numbers have
    "rope_type": "default",
    "rope_theta": 10_000.0,
    "mrope_section": [1, 1, 2],
    "partial_rotary_factor": 1.0,
}
WINDOWS = {
    "embed_dim": 32,
    "num_heads": [2, 4],
    "depths": [1, 1],
    "window_size": 2,
    "patch_size": 4,
}
WAVES = {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
FOUR_STAGES = {
    "embed_dim": 16,
    "num_heads": [2, 2, 2, 2],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}
SERIES, WIDER, CODEC = {"prediction_length": 4}, {"hidden_size": 64}, {"upsample_groups": 32}
PIECE = {"image_size": 8, "patch_size": 4}
FLOW_HEAD = {"flow_head_config": {"condition_dim": 32}}
VOICE = {"num_filters": 4, "downsampling_ratios": [2, 2], "depths": [1, 1, 1]}
BRANCHES = ("vertical_long_to_small_conv", "horizontal_small_to_long_conv", "symmetric_conv_long")
CONVOLVED = {
    "intraclass_block_config": {
        **{f"{name}_{part}ratio": [1] for name in BRANCHES for part in ("long", "mid", "short")},
        "reduce_channel": [1],
        "return_channel": [1, 1, 0],
    },
    "scale_factor_list": [1, 2, 4, 8],
    "kernel_list": [3, 2, 2],
    "neck_out_channels": 32,
}
OVERRIDES = {
    "whisper": {"max_source_positions": 50, "num_mel_bins": 16},
    "speech_to_text": {"max_source_positions": 200, "conv_channels": 32},
    "audio-spectrogram-transformer": {"patch_size": 16, "max_length": 100, "num_mel_bins": 32},
    **dict.fromkeys(
        ("wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat", "wav2vec2-conformer"), WAVES
    ),
    "data2vec-audio": {
        "conv_dim": [16] * 7,
        "num_conv_pos_embeddings": 2,
        "conv_pos_kernel_size": 3,
    },
    "yolos": {"image_size": [32, 32], "num_detection_tokens": 5},
    **{name: {"head_dim": 8, "num_key_value_heads": 4} for name in LATENT},
    "mistral4": {"head_dim": 16, "num_key_value_heads": 4},
    "gptj": {"rotary_dim": 8},
    "codegen": {"rotary_dim": 8},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "gpt_neo": {"attention_types": [[["global"], 2]]},
    "luke": {"entity_vocab_size": 20, "entity_emb_size": 16},
    "squeezebert": {"embedding_size": 32},
    "reformer": {
        "axial_pos_embds": False,
        "is_decoder": True,
        "attention_head_size": 8,
        "attn_layers": ["local", "local"],
        "local_attn_chunk_length": 8,
    },
    "perceiver": {
        "num_latents": 8,
        "d_latents": 32,
        "num_blocks": 1,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "qk_channels": 32,
        "v_channels": 32,
    },
    "lilt": {"hidden_size": 48, "max_2d_position_embeddings": 64, "channel_shrink_ratio": 2},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4, "visual_embed": False},
    "prophetnet": {"num_encoder_layers": 2, "num_decoder_layers": 2},
    "funnel": {"block_sizes": [1, 1], "block_repeats": [1, 1], "num_decoder_layers": 1},
    "dots1": {"n_shared_experts": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "xlstm": {"num_blocks": 2, "embedding_dim": 32},
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
    "zamba2": {"layers_block_type": ["mamba", "hybrid"]},
    **dict.fromkeys(("swin", "swinv2", "maskformer-swin"), WINDOWS),
    "swin2sr": {**WINDOWS, "patch_size": 1},
    "levit": {"image_size": 64, "patch_size": 16},
    "mobilevitv2": {"image_size": 64, "patch_size": 2},
    "donut-swin": {"embed_dim": 32, "num_heads": [2, 4], "depths": [1, 1], "window_size": 2},
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "convnextv2": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "bit": {"embedding_size": 32},
    "esmc": {"num_key_value_heads": 4},
    "zaya": {"num_experts_per_tok": 1},
    **{kind: {"rope_parameters": ROTARY} for kind in SECTIONED},
    "mamba2": {"num_heads": 8, "head_dim": 8, "expand": 2},
    "gemma3n_text": {"layer_types": ["sliding_attention", "full_attention"]},
    # Parts of one configuration that must fit each other.
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), SERIES),
    **dict.fromkeys(("bridgetower", "bridgetower_text_model", "bridgetower_vision_model"), WIDER),
    "efficientloftr": {"out_features": [8, 8, 16, 32], "stage_num_blocks": [1, 1, 1, 1]},
    "glm5_next_text": {
        "num_key_value_heads": 4,
        "qk_rope_head_dim": 0,
        "index_topk": 16,
        "layer_types": ["linear_attention", "indexed_attention"],
    },
    **dict.fromkeys(("gradium_phonon_tts", "pocket_tts"), FLOW_HEAD),
    "granite_speech5_encoder": {"context_size": 16},
    "maskformer": {"backbone_config": FOUR_STAGES},
    **dict.fromkeys(
        (
            *("mimi", "mimi_encoder", "mimi_decoder", "pocket_tts_audio_tokenizer"),
            *("pocket_tts_audio_tokenizer_encoder", "pocket_tts_audio_tokenizer_decoder"),
        ),
        CODEC,
    ),
    "muse_spark_audio": {"patch_sizes": [4, 4], "hidden_sizes": [16, 32], "depths": [1, 1]},
    "nemotron3_diarization": {"head_config": {"audio_hidden_size": 32}},
    "nemotron3_5_transcribe_word_timestamp": {"blank_token_id": 99},
    "t5gemma2_text": {"dropout_rate": 0.0},
    **dict.fromkeys(
        (
            "vibevoice_acoustic_tokenizer",
            "vibevoice_acoustic_tokenizer_encoder",
            "vibevoice_acoustic_tokenizer_decoder",
        ),
        VOICE,
    ),
    "vibevoice_diffusion": {"latent_size": 32},
    "cohere_compass_text": {
        "layer_types": ["full_attention", "full_attention"],
        "rope_parameters": {"full_attention": ROTARY},
    },
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 2, "clip_qkv": 8}},
    "gemma4_assistant": {
        "backbone_hidden_size": 32,
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": 2,
        },
    },
    "depth_pro": {
        "patch_size": 8,
        **dict.fromkeys(("image_model_config", "patch_model_config", "fov_model_config"), PIECE),
        "intermediate_hook_ids": [1, 0],
        "intermediate_feature_dims": [16, 16],
        "scaled_images_feature_dims": [16, 16, 16],
        "fusion_hidden_size": 16,
    },
    "chameleon": {"vocabulary_map": {"<image>": 90, "IMGIMGA": 80, "IMGIMGB": 81}},
    "emu3": {"vocabulary_map": {"<image>": 90, "<|extra_200|>": 91, "<|visual token 000000|>": 80}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "ernie4_5_vl_moe_text": {"rope_parameters": {**ROTARY, "mrope_section": [1, 1, 2]}},
    "emu3_vqgan": {"base_channels": 32},
    "granite4_vision": {
        "deepstack_layer_map": [[0, 0]],
        "downsample_rate": "1/2",
        "vision_config": WIDER,
        "qformer_config": {"encoder_hidden_size": 64, "hidden_size": 64},
    },
    "d_fine": {"backbone_config": {"out_indices": [2, 3, 4]}},
    "pp_ocrv5_server_det": CONVOLVED,
    "pp_ocrv6_medium_det": CONVOLVED,
    "molmo2_adapter": {"vision_feature_layer": [1, 0], "text_hidden_size": 32},
    "nemotron_h_omni": {"vision_config": {"video_temporal_patch_size": 2}},
    "neomme": {"head_dim": 16},
    "lw_detr_vit": {"image_size": 64, "num_windows": 4},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8}},
    "kyutai_speech_to_text": {
        "num_codebooks": 2,
        "codebook_vocab_size": 9,
        "audio_bos_token_id": 8,
        "audio_pad_token_id": 118,
        "ffn_dim": 64,
    },
    "moonshine_streaming": {"num_key_value_heads": 4},
}  # by type: what its configuration needs to be consistent

# By class: two of one type that need different things.
CLASSES = {
    "ReformerForMaskedLM": {"is_decoder": False},
    "T5GemmaEncoderModel": {"is_encoder_decoder": False},
}
