"""Texts: encoders and decoders of one sequence.

    tokens, encoded      a text, or token ids, as tokens, with words and notices
    edits                the same text without some tokens, or with BOS in front
    model                the network with its tokenizer
    spans, pooling       answers that are spans, and embeddings of texts
    answers, writing     what was written as tokens, and how a model writes it

Other kinds of models use much of this too: what they write are texts.
"""
