"""Files that the system refuses to write, as a full disk does, whoever runs the tests."""

import errno
import os
import resource
from contextlib import contextmanager
from unittest import mock


@contextmanager
def files_up_to(size):
    """While it lasts, no file of this process can grow beyond so many bytes."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


@contextmanager
def disk_of(folder, size):
    """While it lasts, a folder has room for so many bytes in all."""

    def fsync(handle, flush=os.fsync):
        if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(handle)

    with mock.patch("os.fsync", fsync):
        yield
