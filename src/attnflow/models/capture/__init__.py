"""Reading attention out of a model that runs, without touching the model.

    spec, sites, keeping, mode     what is kept, of each call of attention, and how it is seen
    run                            one forward pass, and activations of what was seen
    probabilities                  those of a fused kernel, which does not show them
    blocks, readout                what follows attention: projection, residual, norm; the logits
    linear                         projections of quantised layers, which torch does not show
    copies, relevance              a copy that shares the weights; one pass for layer-wise relevance

`run` is the way in.
"""
