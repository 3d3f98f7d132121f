"""Answers that models write, explained by sentences or tokens.

    prompts       the messages of a chat as one text; a prompt with its named parts as tokens
    interface     how a model reads a prompt, writes an answer and accounts for it
    pieces        an answer's sentences, paragraphs or tokens
    text, pair    causal language models and encoder–decoders

How tokens are sampled is in `attnflow.models.text.writing`.
"""
