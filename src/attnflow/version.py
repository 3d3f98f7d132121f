"""The version of the library, in the one place that all others read."""

VERSION = "0.3.0"
