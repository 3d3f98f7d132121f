"""Which classes there are: by the tasks that transformers itself lists them under."""

from transformers.models.auto import modeling_auto as auto

TEXT = ("CAUSAL_LM", "MASKED_LM", "SEQUENCE_CLASSIFICATION", "TEXT_ENCODING")
PAIRS = ("SEQ_TO_SEQ_CAUSAL_LM",)
IMAGES = ("IMAGE_CLASSIFICATION", "OBJECT_DETECTION", "MASKED_IMAGE_MODELING", "IMAGE")
AUDIO = ("AUDIO_CLASSIFICATION", "CTC", "SPEECH_SEQ_2_SEQ", "AUDIO_XVECTOR")
BOTH = ("IMAGE_TEXT_TO_TEXT", "ZERO_SHOT_IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION")
TASKS = (*TEXT, *PAIRS, *IMAGES, *AUDIO, *BOTH)


def classes():
    """``(task, type, class)`` once for every class; then bare models of types in no task."""
    seen, types = set(), set()
    for task in TASKS:
        for kind, names in getattr(auto, f"MODEL_FOR_{task}_MAPPING_NAMES").items():
            for name in (names,) if isinstance(names, str) else names:
                types.add(kind)
                if name not in seen:
                    seen.add(name)
                    yield task.lower(), kind, name
    for kind, names in auto.MODEL_MAPPING_NAMES.items():
        name = names if isinstance(names, str) else names[0]
        if kind not in types and name not in seen:
            seen.add(name)
            yield "base", kind, name
