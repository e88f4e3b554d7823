"""``milp-plan`` as a process of its own: how it ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress

INTERRUPTED = 130
"""``Exit.INTERRUPTED``, before anything is loaded."""


def run() -> None:
    """Run the command line, and end the process with its exit code.

    Ctrl-C while the command is still being loaded ends it in one line, too.
    """
    try:
        from .main import main

        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        leave(INTERRUPTED)
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        leave(end.code)
        raise


def leave(code: object) -> None:
    """End the process without taking down what is in memory, which the system frees at once.

    Taking down the models of a large instance object by object takes seconds, beyond every limit.
    All else that an interpreter does at its end is done, in its order; where that is more than to
    call what is registered and to write out, this returns and leaves it to the interpreter.

    Parameters
    ----------
    code
        Of :class:`SystemExit`: a number, or ``None`` for 0; a message is left to the interpreter.
    """
    main_thread = threading.main_thread()
    others = (thread for thread in threading.enumerate() if thread is not main_thread)
    if not isinstance(code, int | None) or any(not thread.daemon for thread in others):
        return
    atexit._run_exitfuncs()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):  # the interpreter tries again, and says what went wrong
        return
    with suppress(OSError, ValueError):  # what stands there is no result
        if sys.stderr is not None:
            sys.stderr.flush()
    os._exit((code or 0) & 0xFF)
