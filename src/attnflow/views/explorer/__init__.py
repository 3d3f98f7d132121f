"""The explorer: one interactive page, fed by one JSON document, in three hosts.

    study      one input through one model, asked again and again      models, methods → numbers
    document   a study (or an attribution alone) as one JSON document  numbers → JSON
    render     the document in one self-contained HTML file            JSON → file, notebook
    server     the same page over HTTP, with limits                    JSON → browser

The page itself is in ``static``: plain ES modules, no build step.
"""
