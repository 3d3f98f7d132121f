"""From an input to its scores.

    config, arguments, source    everything that is asked for, checked before any work
    choice                       the edges and the method where none is named
    session, sessions            one forward pass and what can be computed from it; many inputs
    graphs, scoring, measured    graphs and their scores; scores of methods that read no edges
    attributions, traces         what a session computed, as records
    blanking                     what a model predicts without some of an input
    answer_session, generation   the same for a whole answer, token by token
    own_rows                     scores that need rows of attention alone, and no graph
    through, deletions           an answer's scores in the prompt; an answer without a part of it
    similarity                   what made two texts similar
    arrays                       scores of attention that a caller passes in

The public functions, the commands and the server ask a session; attention alone goes to `arrays`.
"""
