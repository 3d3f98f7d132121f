"""Encoder–decoders: a text in and another out, or a label.

`sides` puts both sides into one graph, and `seq2seq` runs the model.
"""
