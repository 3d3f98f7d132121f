"""What is said in words about a result: the same in the terminal, on the page, in figures and JSON.

verdicts       whether an answer is "because of" a word: decided here, and nowhere else
findings       what one attribution says, as a sentence with its evidence
summaries      what several methods say of one input, and how far they agree
traces, answers, knockouts    the same for routes, whole answers and removed edges
labels, names, numbers        how tokens, methods and numbers are written
"""
