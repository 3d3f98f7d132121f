"""Reading attention out of a model that runs, without touching the model."""
