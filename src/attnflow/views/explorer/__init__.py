"""The explorer: one interactive page, fed by one JSON document, in three hosts.

    document     a session as one JSON document; extent, found,        session → JSON
                 drawing
    attribution  the same for an attribution that has no session       attribution → JSON
    render       the document in one self-contained HTML file          JSON → file, notebook
    server       the same page over HTTP, with limits                  JSON → browser

The page itself is in ``static``: plain ES modules, no build step. The document has all that the
page needs (which methods there are, how they are named and coloured, what can be blanked, what sets
the colour scale), so that the page only draws:

    app        opens a file or a server; form, toolbar                 the page around the view
    state      what is shown, and links to it; panes, view             state + document → panes
    explorer   connects these; controls, layout, loading,              panes → elements
               description, actions
    strip      one drawing each; finding, prediction, legend, table,   a pane → a drawing
               graph, heatmap, glance

``npm run format`` formats them, ``scripts/check-page`` checks them.
"""
