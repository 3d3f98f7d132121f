"""Training the models of the reproduction: verb number, and sentiment for Table 3."""
