"""The verb-number model of the paper: its architecture and its words."""

from __future__ import annotations

from attnflow.shipped import folder_of

FOLDER = folder_of("verbs")


def register() -> None:
    """Register the architecture with transformers' Auto classes, so that its folders load."""
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

    from attnflow.paper.verbs.architecture import (
        VerbsConfig,
        VerbsForSequenceClassification,
        VerbsModel,
    )

    AutoConfig.register(VerbsConfig.model_type, VerbsConfig, exist_ok=True)
    AutoModel.register(VerbsConfig, VerbsModel, exist_ok=True)
    AutoModelForSequenceClassification.register(
        VerbsConfig, VerbsForSequenceClassification, exist_ok=True
    )
