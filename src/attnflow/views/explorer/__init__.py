"""The explorer: one interactive page, fed by one JSON document, in three hosts.

    study      one input through one model, asked again and again      models, methods → numbers
    document   a study (or an attribution alone) as one JSON document  numbers → JSON
    render     the document in one self-contained HTML file            JSON → file, notebook
    server     the same page over HTTP, with limits                    JSON → browser

The page itself is in ``static``: plain ES modules, no build step. The document says all that Python
knows (which methods there are, how they are named and coloured, what can be blanked, what sets the
scale of colours), so the page draws and derives nothing:

    app        opens a file or a server; form, toolbar                 the page around the view
    state      what is shown, and links to it; panes, view             state + document → panes
    explorer   brings these together; controls, layout, loading,       panes → elements
               description, actions
    strip      one drawing each; prediction, table, graph, heatmap     a pane → a drawing

``npm run format`` formats them, ``scripts/check-page`` checks them.
"""
