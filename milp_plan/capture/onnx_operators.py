"""ONNX's operators: those that compute, with formulas; those that only move bytes.

Names are those of a captured graph: ``onnx.MatMul`` for an operator of ONNX's own, the domain's
last part before the name for others. Operators not listed here and not elementwise are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from milp_plan.io.capture_wire import Kernel, Tensor


def _onnx(names: str) -> frozenset[str]:
    return frozenset(f"onnx.{name}" for name in names.split())


VIEWS = _onnx("Reshape Flatten Squeeze Unsqueeze Identity Dropout")
"""Operators that give the same memory another shape; dropout is the identity in inference."""

RELAYOUTS = _onnx("Reshape Flatten Squeeze Unsqueeze Identity Transpose")
"""Operators that give a weight another order or shape: products read it in either."""

POINTWISE = _onnx(
    """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr
    BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Elu Equal Erf Exp Floor
    Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log
    Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu Round Selu
    Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh
    ThresholdedRelu BitCast Where Xor
    """
)
"""Operators that compute each element from elements at its position."""

COPIES = _onnx(
    """
    CenterCropPad Col2Im Compress Concat DepthToSpace Expand Pad ReverseSequence RotaryEmbedding
    Slice SpaceToDepth Split Tile Transpose Trilu
    """
)
FILLS = _onnx("""
    AffineGrid ConstantOfShape EyeLike Multinomial RandomNormal RandomNormalLike RandomUniform
    RandomUniformLike Range
    """)
REDUCTIONS = _onnx(
    """
    ArgMax ArgMin BatchNormalization CumProd CumSum DynamicQuantizeLinear GroupNormalization Hardmax
    InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization
    MeanVarianceNormalization NegativeLogLikelihoodLoss RMSNormalization ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Softmax
    SoftmaxCrossEntropyLoss
    """
)
GATHERS = _onnx("Gather GatherElements GatherND")
OTHERS = _onnx(
    """
    AveragePool Bernoulli GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample LpPool
    MaxPool MaxRoiPool MaxUnpool NonMaxSuppression NonZero OneHot Resize RoiAlign Scatter
    ScatterElements ScatterND TensorScatter TopK Unique Upsample
    """
)


def _read(kernel: Kernel, place: int) -> Tensor:
    tensor = kernel.arguments[place]
    assert isinstance(tensor, Tensor)
    return tensor


def _made(kernel: Kernel) -> Tensor:
    tensor = kernel.results[0]
    assert tensor is not None
    return tensor


def _product(kernel: Kernel) -> int:
    """Return the operations: each result is a sum over the first factor's last axis."""
    return 2 * prod(_made(kernel).shape) * _read(kernel, 0).shape[-1]


def _gemm(kernel: Kernel) -> int:
    shared = _read(kernel, 0).shape[0 if kernel.keywords.get("transA") else 1]
    return 2 * prod(_made(kernel).shape) * shared


def _convolution(weight: int) -> Callable[[Kernel], int]:
    """Return the formula of a convolution: each element meets its channel's weights."""

    def flops(kernel: Kernel) -> int:
        return 2 * prod(_made(kernel).shape) * prod(_read(kernel, weight).shape[1:])

    return flops


def _transposed(kernel: Kernel) -> int:
    return 2 * prod(_read(kernel, 0).shape) * prod(_read(kernel, 1).shape[1:])


def _recurrent(gates: int) -> Callable[[Kernel], int]:
    """Return the formula: steps x sequences x directions, with products for input and state."""

    def flops(kernel: Kernel) -> int:
        sequence, weight, state = (_read(kernel, place) for place in range(3))
        directions, rows, width = weight.shape
        assert rows == gates * state.shape[2]
        return 2 * prod(sequence.shape[:2]) * directions * rows * (width + state.shape[2])

    return flops


def _attention(kernel: Kernel) -> int:
    """Return the operations of scores and of weighted values; heads are an axis or an attribute."""
    query, key, value = (_read(kernel, place) for place in range(3))
    if len(query.shape) == 4:
        scores = prod(query.shape[:-1]) * key.shape[-2]
        return 2 * scores * (query.shape[-1] + value.shape[-1])
    heads, sharing = kernel.keywords["q_num_heads"], kernel.keywords["kv_num_heads"]
    assert isinstance(heads, int)
    assert isinstance(sharing, int)
    pairs = query.shape[0] * query.shape[1] * key.shape[1]
    return 2 * pairs * (query.shape[2] + heads * value.shape[2] // sharing)


def _einsum(kernel: Kernel) -> int:
    """Return the operations of a product of two factors, one step per value of all letters."""
    equation = kernel.keywords["equation"]
    assert isinstance(equation, str)
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for place, term in enumerate(terms):
        shape = _read(kernel, place).shape
        named = len(term.replace("...", ""))
        free = [f"...{axis}" for axis in range(named - len(shape), 0)]
        before, dots, behind = term.partition("...")
        letters = [*before, *(free if dots else ()), *behind]
        sizes |= {
            letter: max(sizes.get(letter, 1), size)
            for letter, size in zip(letters, shape, strict=True)
        }
    return 2 * prod(sizes.values()) * (len(terms) - 1)


FORMULAS: Mapping[str, Callable[[Kernel], int]] = {
    "onnx.MatMul": _product,
    "onnx.MatMulInteger": _product,
    "onnx.QLinearMatMul": _product,
    "onnx.Gemm": _gemm,
    "onnx.Conv": _convolution(1),
    "onnx.ConvInteger": _convolution(1),
    "onnx.QLinearConv": _convolution(3),
    "onnx.ConvTranspose": _transposed,
    "onnx.RNN": _recurrent(1),
    "onnx.GRU": _recurrent(3),
    "onnx.LSTM": _recurrent(4),
    "onnx.Attention": _attention,
    "onnx.Einsum": _einsum,
}
"""Operators that compute, and their formulas."""
