"""`attnflow tour`: five minutes with the shipped sentiment model, each step a command to repeat."""
