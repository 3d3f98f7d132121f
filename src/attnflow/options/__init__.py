"""The options of functions, commands and requests, each declared once.

`tables.py` is the table: what an option is called, its type, default, help and flag, and where it
does not apply. `option.py` says what can be declared, and makes keywords of a table; the command
line (`attnflow.cli.command`) makes flags, and the server the fields of a request.
"""
