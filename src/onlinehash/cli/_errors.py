"""What a command prints when it fails: one line that names options and commands, not Python."""

from __future__ import annotations

import _thread
import re
import sys
import threading
from collections.abc import Iterable
from typing import Any

from onlinehash.exceptions import OnlineHashError

_OTHER_NAMES = {"n_bits": "bits", "vector_dtype": "dtype", "random_state": "seed"}
_PARAMETER = re.compile(r"\w+\([^()]*\)|(?<![\w.'-])([a-z_]{2,}|[kn])=(True|False)?(?=([^\s.,;)])?)")


def message_of(error: Exception, params: Iterable[Any]) -> str:
    """Return what went wrong in one sentence, in terms of the parameters of a command; a bug is named as one."""
    if isinstance(error, OnlineHashError):
        return _in_options(str(error), params)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, UnicodeError):
        return f"a file or an argument is not UTF-8 text: {error}."
    too_large = isinstance(error, ValueError) and ("Maximum allowed" in str(error) or "too big" in str(error))
    if too_large or isinstance(error, MemoryError | OverflowError):
        return f"a number or a file is too large for this machine ({error}); use fewer bits or smaller values."
    return f"{type(error).__name__}: {error} (a bug in onlinehash; run again with --verbose to see where)"


def _in_options(message: str, params: Iterable[Any]) -> str:
    """Replace parameters of the library by options of the command that was run."""
    options = {param.name: param for param in params if param.opts[0][:1] == "-"}

    def spell(match: re.Match[str]) -> str:
        name, switch, value = match.groups()
        option = options.get(name) or options.get(_OTHER_NAMES.get(name, ""))
        if option is None:  # HCOH(n_bits=8) stays, too
            return match[0]
        if switch is not None:
            return str((option.opts if switch == "True" else option.secondary_opts or option.opts)[0])
        return f"{max(option.opts, key=len)}{' ' * bool(value)}"

    return _PARAMETER.sub(spell, message)


def keep_interrupts() -> None:
    """Repeat a Ctrl-C that was dropped.

    Python cannot pass an exception through a callback from C, which numba uses while it loads a kernel: it reports the
    exception and continues. The command would continue too.
    """

    def repeat(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            # A moment later, when the callback has returned; here it would be dropped again.
            threading.Timer(0.01, _thread.interrupt_main).start()
        else:
            sys.__unraisablehook__(dropped)

    sys.unraisablehook = repeat
