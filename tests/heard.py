"""Small models that hear, with their feature extractors, and a sound."""

import copy
import wave

import numpy as np
import torch
import transformers as tf

import tiny
from attnflow.models.capture.spec import CaptureSpec

NOTHING = CaptureSpec()
USUAL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
WAVES = USUAL | {
    "vocab_size": 26,
    "pad_token_id": 0,
    "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}
PAIR = {
    "vocab_size": 26,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_target_positions": 40,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 2,
}
RATE = 16_000


class Processor:
    """A feature extractor with a tokenizer, as processors of transformers have them."""

    def __init__(self, extractor):
        self.feature_extractor = extractor
        self.tokenizer = tokenizer()

    def __call__(self, *args, **options):
        return self.feature_extractor(*args, **options)


def tokenizer():
    """A few words; the end of a text is [SEP]."""
    words = tiny.word_piece()
    words.eos_token = "[SEP]"
    return words


def waves():
    """Samples as they are, made to have mean 0 and variance 1."""
    return tf.Wav2Vec2FeatureExtractor()


LISTENERS = {
    "wav2vec2-label": lambda: (
        tf.Wav2Vec2ForSequenceClassification, tf.Wav2Vec2Config(**WAVES), waves()
    ),
    "wav2vec2-ctc": lambda: (tf.Wav2Vec2ForCTC, tf.Wav2Vec2Config(**WAVES), Processor(waves())),
    "hubert": lambda: (tf.HubertForCTC, tf.HubertConfig(**WAVES), Processor(waves())),
    "wavlm": lambda: (tf.WavLMForSequenceClassification, tf.WavLMConfig(**WAVES), waves()),
    "ast": lambda: (
        tf.ASTForAudioClassification,
        tf.ASTConfig(**USUAL, max_length=100, num_mel_bins=32),
        tf.ASTFeatureExtractor(max_length=100, num_mel_bins=32),
    ),
}  # fmt: skip
WRITERS = {
    "whisper": lambda: (
        tf.WhisperForConditionalGeneration,
        tf.WhisperConfig(**PAIR, max_source_positions=50, num_mel_bins=16),
        Processor(tf.WhisperFeatureExtractor(feature_size=16, chunk_length=1)),
    ),
    "speech2text": lambda: (
        tf.Speech2TextForConditionalGeneration,
        tf.Speech2TextConfig(
            **PAIR,
            num_conv_layers=2,
            conv_channels=32,
            input_feat_per_channel=16,
            input_channels=1,
            max_source_positions=200,
        ),
        Processor(tf.Speech2TextFeatureExtractor(num_mel_bins=16, feature_size=16)),
    ),
}


def build(name, attention="sdpa"):
    """A model and what reads sounds for it, the same weights whatever the attention."""
    model_class, config, processor = (LISTENERS | WRITERS)[name]()
    torch.manual_seed(0)
    attention = "eager" if name in ("wavlm", "speech2text") else attention
    built = model_class._from_config(copy.deepcopy(config), attn_implementation=attention)
    with torch.no_grad():
        for parameter in built.parameters():  # larger weights make attention less even
            if parameter.dim() > 1:
                parameter.mul_(3)
    return built.eval(), processor


def sound(size=16_000):
    """One second of noise that swells and fades."""
    noise = np.random.default_rng(0).normal(size=size)
    return (0.2 * noise * np.hanning(size)).astype(np.float32)


def write(path, samples, width, channels=1, rate=RATE):
    """A file of samples, so many bytes each."""
    whole = np.clip(
        samples * 2.0 ** (8 * width - 1), -(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1
    )
    if width == 1:
        content = (whole + 128).astype("u1").tobytes()
    else:
        content = whole.astype("<i4").view("u1").reshape(-1, 4)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(content)
    return path
