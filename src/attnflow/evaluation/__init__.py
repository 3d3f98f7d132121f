"""Judging explanations: what blanking and gradients say, and how far explanations agree.

    blank_out, gradients, importance    importance as public functions, and its record
    agreement, blanking_check           two explanations against each other; a quick check
    evaluate, explainers, erasure       methods and baselines on many texts, by the `metrics`
    rationales, statistics              what people marked; intervals and differences
    result, tables                      what is found, and how it is shown
    fit, ridge                          learning how much each head counts

The measures themselves are in `attnflow.methods`: any method can be asked for by its name.
"""
