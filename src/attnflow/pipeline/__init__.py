"""From an input to its scores.

    request, source              everything that is asked for, checked before any work
    choice                       the edges and the method where none is named
    prepare                      inputs read, checked and run in batches: the one way to a session
    session                      one forward pass, and every result that can be computed from it
    graphs, blanking             its graphs; what its model predicts without some of the input
    answers, generation          the session of a whole answer, a target per token; its record
    similarity, knockouts        what made two texts similar; a model without some of its edges
    arrays                       scores of attention that a caller passes in

The public functions, the commands and the server ask a session; attention alone goes to `arrays`.
"""
