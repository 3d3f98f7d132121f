"""Views of results: in the terminal, as figures for print, and in the explorer.

    wording                      what is said in words; "because of" is decided in wording/verdicts
    colours                      the colours of methods and signs, and what sets a scale
    routes                       the routes of a flow, token by token
    kinds                        the kinds of figures
    terminal, figures, explorer  the three views

Views compute no scores: they get them from a session or an attribution.
"""
