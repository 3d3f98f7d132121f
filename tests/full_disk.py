"""Files that the system refuses to write, as a full disk does, whoever runs the tests."""

import resource
from contextlib import contextmanager


@contextmanager
def files_up_to(size):
    """While it lasts, no file of this process can grow beyond so many bytes."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
