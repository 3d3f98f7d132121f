"""The paper's experiment: the verb-number model, its training, the tables and figures."""
