"""Running models: from an input to its tokens, its attention and the model's prediction."""

import warnings

with warnings.catch_warnings():
    # In a notebook without widgets, tqdm says so when transformers imports it; bars are plain then.
    warnings.filterwarnings("ignore", message="IProgress not found")
    import tqdm.auto  # noqa: F401
