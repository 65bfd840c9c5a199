"""What a command prints when it fails: one line that names options and commands, not Python."""

from __future__ import annotations

import _thread
import re
import sys
import threading
from typing import Any

from onlinehash.exceptions import OnlineHashError

_OTHER_NAMES = {
    "n_bits": "bits",
    "vector_dtype": "dtype",
    "random_state": "seed",
    "labels": "label_column",
}
_CREATE = "create it with 'onlinehash collection create'."
# A clause of a message that contains the phrase is replaced; the first phrase that matches counts.
CLAUSES = {
    "pass a hasher": _CREATE,
    "Collection.open(": _CREATE,
    "Close the other": "Wait for the other; searches need not wait.",
    "Open the collection with readonly=True": "Make the folder writable, or move the collection.",
    "partial_fit or fit": "learn from labelled vectors first: onlinehash learn",
    "collection.migrate(": "Leave out --embed, or change the embedder: onlinehash collection migrate",
    "abandon_migration()": "go on with that, or run: onlinehash collection migrate --abandon",
    "Pass the new embedder": "No migration is under way; name the new embedder with --embed.",
    "with vectors=": "pass its new vector from Python, to Collection.migrate.",
    "open it with embed=.": "open it from Python, with the embedder itself.",
    "change_hasher": "Leave out --unlearn, then run: onlinehash collection refresh",
    "register_hasher": "give --import MODULE, the module that registers it.",
    "or a new object": "Use vectors of that width, or learn a new hasher.",
    "partial_fit file": "Use HROH, or learn file after file: onlinehash learn --resume",
}
_PARAMETER = re.compile(r"\w+\([^()]*\)|(?<![\w.'-])([a-z_]{2,}|k)=(True|False)?(?=(\S*))")


def message_of(error: Exception, command: Any) -> str:
    """Return what went wrong in one sentence; a bug is named as one."""
    if isinstance(error, OnlineHashError):
        return _in_options(str(error), command)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, UnicodeError):
        return f"a file or an argument is not UTF-8 text: {error}."
    too_large = isinstance(error, ValueError) and ("Maximum allowed" in str(error) or "too big" in str(error))
    if too_large or isinstance(error, MemoryError | OverflowError):
        return f"a number or a file is too large for this machine ({error}); use fewer bits or smaller values."
    return f"{type(error).__name__}: {error} (a bug in onlinehash; run again with --verbose to see where)"


def _in_options(message: str, command: Any) -> str:
    """Replace parameters of the library by options of the command that was run, if any."""
    options = {} if command is None else {param.name: param for param in command.params if param.opts[0][:1] == "-"}
    clauses = dict(CLAUSES)
    if "method" in options:
        clauses["pass a hasher"] = clauses["Collection.open("] = "give --method to create it."

    def replace(clause: str) -> str:
        return next((better for phrase, better in clauses.items() if phrase in clause), clause)

    def spell(match: re.Match[str]) -> str:
        name, switch, value = match.groups()
        if name is None:  # HCOH(n_bits=8) stays
            return match[0]
        option = options.get(name) or options.get(_OTHER_NAMES.get(name, ""))
        if option is None:
            return f"--set {match[0]}" if "settings" in options and not match.start() else match[0]
        if switch is not None and option.is_flag:
            names = option.opts if switch == "True" else option.secondary_opts or option.opts
            return str(names[0])
        gap = f" {switch or ''}" if switch or value.strip(".,;)") else ""
        return f"{max(option.opts, key=len)}{gap}"

    return _PARAMETER.sub(spell, " ".join(map(replace, re.split(r"(?<=[.;])\s+", message))))


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
