"""The verb-number model of the paper, shipped with the package."""

from __future__ import annotations

from pathlib import Path

NAME = "attnflow/verbs"
FOLDER = Path(__file__).parent / "weights"


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
