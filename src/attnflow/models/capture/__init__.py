"""Reading attention out of a running model, without touching the model.

    spec, mode                      what is kept, and how it is recognised
    run                             one forward pass, and activations made of what was captured
    probabilities                   those of a fused kernel, which does not show them
    blocks                          what follows attention: projection, residual, norm; the logits
    windows                         attention in windows, which no call of torch shows
    copies, differentiable          copies that share the weights; layers that cut gradients off
    towards, backward, relevance    edges towards a target, read off the backward pass
    kernels, triton_edges           the same on a GPU

`run` is the entry point.
"""
