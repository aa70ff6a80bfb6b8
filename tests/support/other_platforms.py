"""Plugin of pytest that takes from Python what Windows or macOS lack: `python -m pytest -p support.other_platforms`.

RETENTIVE_PLATFORM is `windows` or `macos`. The standard library and other packages are imported before, since they
have code of their own for each platform. What a kernel or a file system does differently cannot be shown this way.
"""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import ssl
import sys
import tempfile
import unicodedata
from contextlib import suppress
from typing import Any, NoReturn

import pytest

BEFORE = (
    "anyio._backends._asyncio", "asyncio", "click", "concurrent.futures", "cryptography.fernet", "ctypes",
    "cryptography.hazmat.primitives.ciphers.aead", "email.message", "getpass", "http.server", "hypothesis", "logging",
    "hypothesis.stateful", "mcp.server", "multiprocessing.context", "obstore.store", "psycopg.pq", "psycopg_binary",
    "pymysql", "re2", "rich.console", "rich.markdown", "shutil", "socketserver", "sqlite3", "ssl", "subprocess",
    "tarfile", "tempfile", "uuid", "webbrowser", "zipfile",
)  # fmt: skip
MODULES = {
    "windows": ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty", "_posixshmem"),
    "macos": (),
}
"""Modules of the standard library that the platform lacks."""
NAMES = {
    "windows": (
        "O_ASYNC", "O_CLOEXEC", "O_DIRECT", "O_DIRECTORY", "O_DSYNC", "O_NOATIME", "O_NOCTTY", "O_NOFOLLOW",
        "O_NONBLOCK", "O_PATH", "O_SYNC", "O_TMPFILE", "SCHED_OTHER", "ST_NOEXEC", "chown", "chroot",
        "fchdir", "fchown", "fdatasync", "fork", "forkpty", "getegid", "geteuid", "getgid", "getpgid",
        "getuid", "initgroups", "lchown", "memfd_create", "mkfifo", "mknod", "nice", "openpty",
        "pipe2", "posix_fadvise", "posix_fallocate", "pread", "preadv", "pwrite", "pwritev", "readv",
        "register_at_fork", "sched_getaffinity", "sendfile", "setsid", "statvfs", "sync", "uname", "writev",
    ),
    "macos": (
        "O_DIRECT", "O_NOATIME", "O_PATH", "O_TMPFILE", "copy_file_range", "eventfd", "fdatasync",
        "getrandom", "getxattr", "listxattr", "memfd_create", "pipe2", "posix_fadvise", "posix_fallocate",
        "preadv", "pwritev", "removexattr", "sched_getaffinity", "setxattr", "splice",
    ),
}  # fmt: skip
"""Names of the module `os` that the platform lacks."""
_WITH_DIRECTORY = (
    "chmod",
    "link",
    "mkdir",
    "open",
    "readlink",
    "rename",
    "replace",
    "rmdir",
    "stat",
    "symlink",
    "unlink",
)


def become(platform: str) -> None:
    """Take modules, names and arguments from this process. There is no way back."""
    for name in BEFORE:
        importlib.import_module(name)
    for name in MODULES[platform]:
        vars(sys)["modules"][name] = None  # as documented: an import of it fails
    for name in NAMES[platform]:
        if hasattr(os, name):
            delattr(os, name)
    vars(tempfile).update(_O_TMPFILE_WORKS=False)  # what these modules found out when they were imported
    vars(shutil).update(_use_fd_functions=False, _USE_CP_SENDFILE=False, _USE_CP_COPY_FILE_RANGE=False)
    if platform == "windows":
        for name in _WITH_DIRECTORY:
            setattr(os, name, _without_directories(getattr(os, name)))
        vars(ssl)["enum_certificates"] = lambda _: []  # the store of the system, which is empty here
        sys.platform = "win32"
    else:
        for name in _WITH_DIRECTORY:
            setattr(os, name, _ignoring_case(getattr(os, name)))
        look = os.lstat  # which the directory backend asks for a whole path
        vars(os)["lstat"] = lambda path, **options: look(_present_path(path), **options)
        sys.platform = "darwin"


def _without_directories(function: Any) -> Any:
    """The function as on Windows: it takes no descriptor of a directory, and opens no directory."""

    def on_windows(*arguments: Any, **options: Any) -> Any:
        for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"):
            if options.pop(name, None) is not None:
                _unsupported(name)
        if function.__name__ == "open" and os.path.isdir(arguments[0]):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return function(*arguments, **options)

    return on_windows


def _ignoring_case(function: Any) -> Any:
    """The function as on APFS: a name in an open directory is also found in another case and Unicode form."""
    folders = ("src_dir_fd", "dst_dir_fd") if function.__name__ in {"link", "rename", "replace"} else ("dir_fd",)

    def on_macos(*arguments: Any, **options: Any) -> Any:
        given = list(arguments)
        for at, folder in enumerate(folders):
            if options.get(folder) is not None:
                given[at] = _present(given[at], options[folder])
        return function(*given, **options)

    return on_macos


def _present_path(path: Any) -> Any:
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(folder, _present(name, folder or ".")) if isinstance(name, str) else path


def _present(name: str, directory: int | str) -> str:
    """The name as it stands in the directory, or as it is given if there is none like it."""
    with suppress(OSError):
        present = os.listdir(directory)
        return name if name in present else next((one for one in present if _folded(one) == _folded(name)), name)
    return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def _unsupported(name: str) -> NoReturn:
    raise NotImplementedError(f"{name} unavailable on this platform")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Change the platform after pytest has started, and before anything imports retentive."""
    from support import servers
    from support.servers.base import find

    for start in (servers.postgresql, servers.mariadb, servers.moto):  # by this process, as long as it can
        with suppress(pytest.skip.Exception):
            start()
    find("mariadb")  # the tests run it; a search as on Windows would look for an .exe
    assert "retentive" not in sys.modules
    become(os.environ["RETENTIVE_PLATFORM"])
