"""What was found, shown: in the terminal, as figures for print, and in the explorer.

    findings, sentences, conclusions           what an attribution or a trace says, in words
    answers, summary                           the same of answers, and of several methods
    labels, methods, numbers, palette          how tokens, methods and numbers look everywhere
    scaling, routes                            what sets a colour scale; routes token by token
    kinds                                      the kinds of figures
    terminal, figures, explorer                the three views

A view computes no score: it asks a session or an attribution.
"""
