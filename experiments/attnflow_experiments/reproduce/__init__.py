"""`attnflow reproduce`: the paper's tables and figures."""
