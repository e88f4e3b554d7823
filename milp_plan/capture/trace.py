"""PyTorch's capture: from a module and example inputs to one graph, without weights.

The only file that touches PyTorch's private interfaces (``torch._functorch``, fake tensors). A
model is built on the device ``meta``; its tensors become fake tensors of the CPU (on ``meta``
itself gradients would silently come out as none); ``torch.export`` preserves the paths of
modules, which AOTAutograd alone would lose; and AOTAutograd returns the joint graph of forward and
backward pass. Later releases than :data:`TESTED` may move these interfaces.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from milp_plan.core import BackendUnavailableError, Finding, InputError
from milp_plan.io.capture_wire import Capture

from .failures import first_line, source_line, where_it_stops
from .model_file import INNER, NO_TORCH, TESTED, Builder
from .nodes import Recorder

Report = Callable[[str], None]
"""Called with progress."""

Built = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A module, and its inputs by position and by name."""


def torch_module() -> Any:
    """Import PyTorch.

    Raises
    ------
    PyTorch is not installed; the error says how to install it.
        It is not installed; says how to get it.
    """
    try:
        import torch
    except ImportError as error:
        raise BackendUnavailableError(NO_TORCH) from error
    return torch


@dataclass(frozen=True)
class Joint:
    """Graph captured by PyTorch.

    Parameters
    ----------
    graph
        An ``fx.Graph`` of forward and backward pass; the ``meta["desc"]`` of each input, and of the
        output, describes it.
    torch
        Release of PyTorch.
    """

    graph: Any
    torch: str


def capture_model(
    builder: Builder,
    *,
    mode: str = "training",
    dtype: str | None = None,
    name: str | None = None,
    device: str = "cpu",
    profile: bool = False,
    report: Report = lambda _text: None,
) -> Capture:
    """Capture the model of a user's file.

    Parameters
    ----------
    builder
        From :func:`~milp_plan.capture.model_file.load_builder`.
    mode
        ``"training"`` (the first output is the scalar loss) or ``"inference"``.
    dtype
        Type of numbers to build the model in, such as ``"bfloat16"``; PyTorch's own otherwise.
    name
        Name of the graph; derived from the file's name by default.
    device
        Type of device of the captured kernels, which must exist: ``"cpu"``, ``"cuda"``.
    profile
        Whether to build the model with weights and time each kernel on the device.
    report
        Called with progress.

    Raises
    ------
    BackendUnavailableError
        PyTorch is not installed.
    InputError
        The model cannot be built or captured; the error names module and source line.
    """
    torch = torch_module()
    require_device(device)
    built = build(builder, dtype, report)
    with _quiet(), trace(builder.text, built, mode, report, device=device) as joint:
        report(f"recording {len(joint.graph.nodes):,} nodes")
        recorder = Recorder(builder.text, builder.flops, prefix=INNER)
        capture = recorder.capture(joint.graph, name or builder.stem, mode, torch.__version__)
    if not profile:
        return capture
    from .profile import profiled

    with _quiet():
        return profiled(capture, joint.graph, builder, dtype=dtype, device=device, report=report)


def require_device(device: str) -> None:
    """Check that PyTorch has a device: with a missing one it ends the whole process.

    Raises
    ------
    BackendUnavailableError
        PyTorch does not have the device.
    """
    torch = torch_module()
    kind = device.partition(":")[0]
    if kind != "cpu" and not (hasattr(torch, kind) and getattr(torch, kind).is_available()):
        raise BackendUnavailableError(
            f"PyTorch {torch.__version__} finds no device {device!r}; use --device cpu, or install"
            " a build of PyTorch for it"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress PyTorch's warnings about its own internals."""
    known = logging.getLogger("torch").level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch").setLevel(logging.ERROR)
        try:
            yield
        finally:
            logging.getLogger("torch").setLevel(known)


# building ----------------------------------------------------------------------------------------


def build(builder: Builder, dtype: str | None, report: Report) -> Built:
    """Build module and inputs on ``meta``; where that fails, on the CPU.

    Raises
    ------
    InputError
        The function fails, or does not return ``(module, args)``.
    """
    torch = torch_module()
    before = torch.get_default_dtype()
    if dtype is not None:
        chosen = getattr(torch, dtype, None)
        if not isinstance(chosen, torch.dtype):
            raise _error("--dtype", repr(dtype), "a type such as bfloat16", "correct it", builder)
        torch.set_default_dtype(chosen)
    report("building the model")
    try:
        try:
            with torch.device("meta"):
                built = builder.build()
        except (RuntimeError, NotImplementedError) as error:
            report(f"building it again with weights, since it reads them ({first_line(error)})")
            built = builder.build()
    except InputError:
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {first_line(error)}{source_line(error, builder.text)}"
        expected, remedy = "a function that returns (module, args)", "correct the function"
        raise _error("build", found, expected, remedy, builder) from error
    finally:
        torch.set_default_dtype(before)
    return _unpacked(built, builder)


def _unpacked(built: Any, builder: Builder) -> Built:
    torch = torch_module()
    pair = isinstance(built, tuple) and len(built) == 2
    if not pair or not isinstance(built[0], torch.nn.Module):
        expected = "(module, args) with a torch.nn.Module"
        found = type(built[0] if pair else built).__name__
        raise _error("build", found, expected, "return module and example inputs", builder)
    module, args = built
    if isinstance(args, dict):
        return module, (), args
    if isinstance(args, list | tuple):
        return module, tuple(args), {}
    expected = "a tuple of example inputs, or a dictionary of named ones"
    raise _error("args", type(args).__name__, expected, "write for example (x,)", builder)


# capturing ---------------------------------------------------------------------------------------


@contextmanager
def trace(
    text: str, built: Built, mode: str, report: Report, *, device: str = "cpu"
) -> Iterator[Joint]:
    """Capture the graph of a module; it is valid within the context.

    Raises
    ------
    InputError
        PyTorch cannot capture the model; the error names module and source line.
    """
    torch = torch_module()
    try:
        from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ImportError as error:
        raise BackendUnavailableError(
            f"PyTorch {torch.__version__} has other interfaces than {TESTED} ({error});"
            f" pip install 'torch=={TESTED}.*'"
        ) from None
    training = mode == "training"
    module, args, kwargs = built
    fakes = FakeTensorMode()
    wrapped = wrapper(module if training else module.eval(), training)
    args, kwargs = _faked(wrapped, (args, kwargs), fakes, training=training, device=device)
    gradients = torch.enable_grad if training else torch.no_grad
    with fakes, gradients(), ExitStack() as stack:
        report("exporting the forward pass")
        try:
            exported = torch.export.export(wrapped, args, kwargs, strict=False).module()
        except Exception as error:
            raise _not_captured(text, error, wrapped, args, kwargs) from error
        report("tracing forward and backward pass" if training else "tracing")
        try:
            joint = aot_export_joint_with_descriptors(stack, exported, args, kwargs)
        except Exception as error:
            raise _not_captured(text, error, wrapped, args, kwargs) from error
        yield Joint(joint.graph_module.graph, torch.__version__)


def wrapper(module: Any, training: bool, *, alone: bool = False) -> Any:
    """Return a module around the user's that returns all its tensors.

    In training the first one is the loss; the others (logits, states) are detached from the
    backward pass, and with ``alone`` left out. Caches that are no tensors cannot be returned.
    """
    torch = torch_module()
    leaves = torch.utils._pytree.tree_leaves

    def tensors(values: Any) -> tuple[Any, ...]:
        return tuple(leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor))

    class Wrapper(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            setattr(self, INNER, module)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            found = getattr(self, INNER)(*args, **kwargs)
            if isinstance(found, torch.Tensor):
                return found
            values = list(found.values()) if isinstance(found, dict) else found
            if not training:
                return tensors(values)
            if not isinstance(values, list | tuple):
                return values
            others = () if alone else tensors(list(values[1:]))
            return (values[0], *(leaf.detach() for leaf in others)) if others else values[0]

    return Wrapper().train(module.training)


def _faked(wrapped: Any, inputs: Any, fakes: Any, *, training: bool, device: str) -> Any:
    """Replace all tensors by fake tensors of a device; tied ones stay tied."""
    torch = torch_module()
    from torch._subclasses.fake_tensor import FakeTensor

    known: dict[int, tuple[Any, Any]] = {}

    def fake(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        if id(item) not in known:
            made = FakeTensor(fakes, item.detach().to("meta"), torch.device(device))
            if isinstance(item, torch.nn.Parameter):
                made = torch.nn.Parameter(made, requires_grad=item.requires_grad and training)
            known[id(item)] = made, item  # keeps the item alive, so that its id stays its own
        return known[id(item)][0]

    with torch.no_grad():
        for module in wrapped.modules():
            for name, item in list(vars(module).items()):
                if isinstance(item, torch.Tensor):  # no buffer: AOTAutograd would not know it
                    del vars(module)[name]
                    module.register_buffer(name, item, persistent=False)
            for table in (module._parameters, module._buffers):
                table.update((name, fake(item)) for name, item in table.items())
        return torch.utils._pytree.tree_map(fake, inputs)


# what went wrong ---------------------------------------------------------------------------------


def _not_captured(
    text: str, error: Exception, wrapped: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> InputError:
    """Return a long message of PyTorch as one finding, with the place where it happened."""
    module, operator = where_it_stops(wrapped, args, kwargs)
    module = module.removeprefix(INNER).removeprefix(".")
    where = f"module {module!r}" if module else "the model"
    found = f"{type(error).__name__}: {first_line(error)}{source_line(error, text)}"
    if operator:
        found = f"{found}, in {operator}"
    remedy = "take what depends on values of tensors (.item(), data-dependent shapes) out of it"
    if not isinstance(error, RuntimeError | ValueError) and not module:
        remedy = "try torch.export.export(module, args, strict=False) on it"
    expected = "a model that torch.export can capture"
    return InputError([Finding(where, found, expected, remedy, text)])


def _error(where: str, found: str, expected: str, remedy: str, builder: Builder) -> InputError:
    return InputError([Finding(where, found, expected, remedy, builder.text)])
