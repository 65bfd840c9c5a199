"""Ctrl-C that is not lost."""

from __future__ import annotations

import _thread
import sys
import threading
from typing import Any


def keep_interrupts() -> None:
    """Repeat a Ctrl-C that was dropped.

    Python cannot pass an exception through a callback from C, which numba uses while it loads a kernel: it reports the
    exception and goes on. The command would go on too.
    """
    sys.unraisablehook = _repeat_interrupt


def _repeat_interrupt(dropped: Any) -> None:
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        # A moment later, when the callback has returned; here it would be dropped again.
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(dropped)
