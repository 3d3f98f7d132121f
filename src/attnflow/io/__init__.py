"""What goes in and out: inputs as they are given, files to write, progress."""
