"""Loops compiled by numba, and kept on disk; numba is loaded when the first of them is called.

That takes longer than planning a small problem, and many small problems need no loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, update_wrapper
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np

from .budget import OutOfTime, now, undisturbed

_Function = TypeVar("_Function", bound=Callable[..., object])

OPTIONS = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True}

PACKAGE = Path(__file__).parents[1]

GONE = (AttributeError, ImportError)
"""What numba raises where an older release has left loops of a type that has another name now."""

_LOADING = RLock()

_interpreted: ContextVar[float | None] = ContextVar("interpreted", default=None)
"""Until when loops that are not loaded yet run as Python functions; ``None``: they do not."""


@contextmanager
def interpreted(until: float = float("inf")) -> Iterator[None]:
    """Run loops of this thread as Python functions, unless they are loaded.

    They give the same results about a hundred times more slowly: for small inputs that is faster
    than compiling the loops, or than loading numba.

    Parameters
    ----------
    until
        A time on the clock :data:`~.budget.now`. A loop that is called later, also by a loop that
        runs as Python, raises :class:`~.budget.OutOfTime`; what it works on is then in disorder.
    """
    outer = _interpreted.get()
    before = _interpreted.set(until if outer is None else min(until, outer))
    try:
        with np.errstate(over="ignore"):  # compiled integers wrap in silence
            yield
    finally:
        _interpreted.reset(before)


def interpreting() -> bool:
    """Whether loops of this thread run as Python functions: what needs long loops is left out."""
    return _interpreted.get() is not None


class Loop:
    """A function that is compiled when it is first called, from Python or from another loop."""

    def __init__(self, function: Callable[..., object], *, inline: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.inline = inline
        self._made: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        if self._made is None and (until := _interpreted.get()) is not None:
            if now() >= until:
                raise OutOfTime
            return self.py_func(*arguments)
        return (self._made or self.made)(*arguments)

    @property
    def made(self) -> Any:
        """What numba has made of it."""
        with _LOADING, undisturbed():
            if self._made is None:
                self._made = _maker()(self.py_func, self.inline)
        return self._made


@cache
def _maker() -> Callable[[Callable[..., object], bool], Any]:
    """Load numba; return what makes a loop of a function, or leaves it as it is."""
    from numba import config
    from numba.core.registry import CPUDispatcher
    from numba.core.types import Dispatcher
    from numba.core.types.misc import unliteral
    from numba.extending import typeof_impl

    if config.DISABLE_JIT:
        return lambda function, _inline: function

    class Compiled(CPUDispatcher):  # type: ignore[misc]
        """A loop that is compiled once for all numbers of a type.

        Without it numba compiles a callee again for each constant it is called with: ``f(a, 0)``
        and ``f(a, n)`` would be two, and so would be all that ``f`` calls with its argument.
        """

        def get_call_template(self, args: Sequence[Any], kws: dict[str, Any]) -> Any:
            plain = {name: unliteral(kind) for name, kind in kws.items()}
            return super().get_call_template([unliteral(kind) for kind in args], plain)

        def compile(self, sig: Any) -> Any:
            """Compile, or load from disk, to the end: what is left halfway is never usable."""
            with undisturbed():
                try:
                    return super().compile(sig)
                except GONE:
                    self._cache.flush()
                    return super().compile(sig)

    def make(function: Callable[..., object], inline: bool) -> Any:
        loop = Compiled(function, targetoptions=OPTIONS | {"forceinline": inline})
        loop.enable_caching()
        loop._cache._cache_file._source_stamp = sources_of(function)
        return loop

    @typeof_impl.register(Loop)  # type: ignore[untyped-decorator]
    def _called_by_a_loop(value: Loop, _context: object) -> Any:
        return Dispatcher(value.made)

    return make


def sources_of(function: Any) -> bytes:
    """Return a hash of the source of a loop, and of those of all loops that it calls in turn.

    numba compiles what a loop calls into it, and looks at the loop's own source alone: without
    this, an old loop on disk would go on with an old callee.
    """
    return _stamp(_files_of(function))


def _files_of(function: Any) -> tuple[str, ...]:
    """Return the file of a loop, then those of the loops that it calls."""
    seen: list[Any] = []
    waiting = [function]
    while waiting:
        seen.append(waiting.pop())
        called = (seen[-1].__globals__.get(name) for name in seen[-1].__code__.co_names)
        waiting += [
            loop.py_func
            for loop in called
            if isinstance(loop, Loop) and loop.py_func not in (*seen, *waiting)
        ]
    own, *others = dict.fromkeys(entry.__code__.co_filename for entry in seen)
    return own, *sorted(others)


def _stamp(files: Sequence[str]) -> bytes:
    if len(files) == 1:
        return hash_of(files[0])
    return sha256(b"".join(map(hash_of, files))).digest()


@cache
def hash_of(path: str) -> bytes:
    """Return the hash of a file."""
    return sha256(Path(path).read_bytes()).digest()


def compiled(function: _Function) -> _Function:
    """Compile a function of numbers and arrays on its first call; releases the GIL."""
    return cast(_Function, Loop(function))


def inlined(function: _Function) -> _Function:
    """Compile a function into every loop that calls it: for what is called at each step of one."""
    return cast(_Function, Loop(function, inline=True))


@compiled
def copy_into(values: Any, to: Any) -> None:
    """Write values into the beginning of an array, one by one.

    Loops use it in place of a slice that is assigned an array: for one of those numba compiles the
    texts of its errors as well, two processor seconds in every process that compiles.
    """
    for i in range(len(values)):
        to[i] = values[i]


@compiled
def sort_stably(keys: Any, order: Any) -> None:
    """Fill ``order`` with the places of whole numbers in rising order; equal ones stay as they are.

    Loops use it in place of ``argsort``, which numba compiles anew for each type of numbers, two
    processor seconds each.
    """
    count = len(keys)
    merged = np.empty(count, np.int64)
    for i in range(count):
        order[i] = i
    width = 1
    while width < count:
        for low in range(0, count - width, 2 * width):
            left, right, middle, high = low, low + width, low + width, min(low + 2 * width, count)
            for at in range(low, high):
                if right == high or (left < middle and keys[order[left]] <= keys[order[right]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
            for at in range(low, high):
                order[at] = merged[at]
        width *= 2


def _listed(where: str, name: str) -> bool:
    """Whether a loop of this package is on disk, by the list of its files from an earlier look.

    The module, and all that it imports, need not be loaded for that.
    """
    if os.environ.get("NUMBA_CACHE_DIR") is not None:
        return False
    source = PACKAGE.joinpath(*where.split(".")[1:])
    beside = source.parent / "__pycache__"
    try:
        texts = (beside / f"{source.name}.{name}.sources").read_text().splitlines()
        stamp = _stamp([str(PACKAGE / text) for text in texts])
        indices = beside.glob(f"{source.name}.{name}-*.nbi")
        return any(stamp in index.read_bytes() for index in indices)
    except OSError:
        return False


def kept(loop: str) -> bool:
    """Whether a compiled loop lies on disk from an earlier run; ``True`` where none is compiled.

    The files say so without numba, whose import takes a second: the index of a loop contains the
    hash of its sources. numba is asked where it may keep its files elsewhere, or where a folder
    that the user has named contains such an index.

    Parameters
    ----------
    loop
        Such as ``"package.module:function"``.
    """
    where, _, name = loop.partition(":")
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or _listed(where, name):
        return True
    module = import_module(where)
    source = Path(module.__file__ or "")
    named = os.environ.get("NUMBA_CACHE_DIR")
    beside = source.parent / "__pycache__"
    pattern = f"{source.stem}.{name}-*.nbi"
    indices = beside.glob(pattern) if named is None else Path(named).glob(f"*/{pattern}")
    files = _files_of(getattr(module, name).py_func)
    stamp = _stamp(files)
    found = any(stamp in index.read_bytes() for index in indices)
    if found and named is None:
        with suppress(OSError, ValueError):
            texts = [Path(file).relative_to(PACKAGE).as_posix() for file in files]
            (beside / f"{source.stem}.{name}.sources").write_text("\n".join(texts))
        return True
    # numba writes beside the sources where it can; a folder that is missing is made
    sure = named is not None or os.access(beside if beside.exists() else source.parent, os.W_OK)
    if not found and sure and not os.environ.get("NUMBA_DISABLE_JIT"):
        return False
    cache = getattr(getattr(module, name).made, "_cache", None)
    try:
        return cache is None or bool(cache._cache_file._load_index())
    except GONE:
        return False
