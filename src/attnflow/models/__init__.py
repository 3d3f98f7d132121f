"""Running models: from an input to its tokens, its attention and the model's prediction.

    adapter                      what every kind of model offers to the rest of the library
    loading, fetching, hub       from a name, a folder or a network to a model
    text, pair, image, audio     the kinds of models
    answers                      prompts with parts, and the answers that models write to them
    capture, checks              what a network computes, read while it runs; what it does, tried
    heads, outputs, objectives   what a head says, and what is asked about it

A new kind of model is listed in `loading`.
"""
