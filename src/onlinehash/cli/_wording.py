"""Errors of the library in the words of the command line: options and commands in place of Python."""

from __future__ import annotations

import re
from typing import Any

_OTHER_NAMES = {
    "n_bits": "bits",
    "vector_dtype": "dtype",
    "random_state": "seed",
    "labels": "label_column",
}
_CREATE = r"(pass a hasher to create it|create it( with|:) Collection\.open\([^)]*\))"
_SENTENCES = {
    _CREATE: "create it with: onlinehash collection create",
    r"Close the other, or open this one with readonly=True\.": "Wait for the other; searches need not wait.",
    r"Open the collection with readonly=True, or move it\.": "Make the folder writable, or move the collection.",
    r"Open it with readonly=True\.": "It can be searched, but not changed.",
    r"call partial_fit or fit first": "learn from labelled vectors first: onlinehash learn",
    r"To learn anew from what is left, delete, then call collection\.change_hasher\(\.\.\.\)\.": (
        "Leave out --unlearn, then run: onlinehash collection refresh"
    ),
    r"import the module that defines it and call register_hasher before": (
        "give --import MODULE, the module that registers it"
    ),
    r"Use features of that width, or a new object\.": "Use vectors of that width, or learn a new hasher.",
    r"or call partial_fit file after file": "or learn file after file: onlinehash learn --resume",
}
_NAME = re.compile(r"\w+\([^()]*\)|(?<![\w.'-])([a-z_]{2,}|k)=(True|False)?(?=(\S*))")


def in_options(message: str, command: Any) -> str:
    """Return a message with options of a command where the library names parameters.

    Parameters
    ----------
    message : str
    command : the command that was run, or None
    """
    options = {} if command is None else {param.name: param for param in command.params if param.opts[0][:1] == "-"}
    if "method" in options:
        message = re.sub(_CREATE, "give --method to create it", message)
    for sentence, better in _SENTENCES.items():
        message = re.sub(sentence, better, message)

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

    return _NAME.sub(spell, message)
