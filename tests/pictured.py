"""Small models that read patches among tokens, with their processors."""

import copy

import torch
import transformers as tf
from transformers import CLIPImageProcessorPil, SiglipImageProcessorPil

import tiny

VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
    "projection_dim": 16,
}


def processor():
    tokenizer = tiny.plain()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    size = {"height": 32, "width": 32}
    return tf.LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=size),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
    )


def llava(attention="sdpa"):
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**VISION),
        text_config=tf.LlamaConfig(**tiny.DECODER),
        image_token_id=26,
        image_token_index=26,
        vision_feature_layer=-1,
    )
    torch.manual_seed(0)
    model_class = tf.LlavaForConditionalGeneration
    model = model_class._from_config(copy.deepcopy(config), attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model.eval(), processor()


def paligemma(attention="sdpa"):
    tokenizer = tiny.plain()
    tokenizer.bos_token = "[CLS]"
    size = {"height": 32, "width": 32}
    images = SiglipImageProcessorPil(size=size)
    images.image_seq_length = 16
    reader = tf.PaliGemmaProcessor(image_processor=images, tokenizer=tokenizer)
    text = {**tiny.DECODER, "vocab_size": len(tokenizer), "model_type": "gemma"}
    config = tf.PaliGemmaConfig(
        vision_config={**VISION, "model_type": "siglip_vision_model"},
        text_config=text,
        image_token_index=reader.image_token_id,
        projection_dim=32,
        hidden_size=32,
    )
    torch.manual_seed(0)
    model_class = tf.PaliGemmaForConditionalGeneration
    model = model_class._from_config(copy.deepcopy(config), attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model.eval(), reader
