"""Texts: encoders and decoders of one sequence.

    tokens, words, notices   a text as tokens, its words, and what a reader must know of it
    blanking, bos            the same text without some tokens, or with BOS in front
    sequence, decisions      the network with its tokenizer, and where it decides
    model                    what is run and explained
    spans, tagging           answers that are spans, and labels of tokens
    embeddings, pooling      word embeddings that are edited, and embeddings of texts
    answers, writing         what was written as tokens, and how a model writes it
    joining                  an answer that is given as text, behind its prompt

Other kinds of models use much of this, too: what they write are texts.
"""
