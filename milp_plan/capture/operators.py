"""Classes of PyTorch's operators without countable operations.

An operator that is not listed here, is not elementwise by PyTorch's own tag, and has no formula
(``milp_plan.capture.work``) is unknown, and an error.
"""

from __future__ import annotations

from . import onnx_operators as onnx


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" for name in names.split())


COPIES = (
    _aten(
        """
    _to_copy clone copy view_copy expand_copy permute_copy slice_copy as_strided_copy
    lift_fresh_copy lift_fresh contiguous _reshape_copy reshape cat stack constant_pad_nd repeat
    repeat_interleave roll flip tril triu diag_embed slice_backward select_backward slice_scatter
    select_scatter diagonal_scatter as_strided_scatter pixel_shuffle pixel_unshuffle
    channel_shuffle reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d reflection_pad1d_backward reflection_pad2d_backward
    reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward
    replication_pad3d_backward im2col col2im unfold_backward unbind_copy split_copy
    native_dropout native_dropout_backward _fused_dropout masked_fill alias_copy detach_copy
    floor_divide true_divide polar complex view_as_complex_copy view_as_real_copy _conj_physical
    """
    )
    | onnx.COPIES
)
"""Operators that move elements one to one."""

FILLS = (
    _aten(
        """
    full full_like zeros zeros_like ones ones_like empty empty_like empty_strided new_empty
    new_zeros new_full new_ones new_empty_strided arange linspace logspace eye scalar_tensor fill
    rand rand_like randn randn_like randint randint_like randperm bernoulli normal
    normal_functional uniform exponential tril_indices triu_indices zero
    """
    )
    | onnx.FILLS
)
"""Operators that make elements without inputs."""

REDUCTIONS = (
    _aten(
        """
    sum nansum mean amax amin aminmax max min prod var var_mean std std_mean argmax argmin any all
    count_nonzero norm linalg_vector_norm logsumexp cumsum cumprod logcumsumexp cummax cummin
    native_layer_norm native_layer_norm_backward native_batch_norm native_batch_norm_backward
    _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_with_update_functional
    _batch_norm_no_update
    batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward native_group_norm
    native_group_norm_backward _fused_rms_norm _fused_rms_norm_backward rms_norm
    _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data _safe_softmax
    nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward
    binary_cross_entropy binary_cross_entropy_backward mse_loss mse_loss_backward smooth_l1_loss
    smooth_l1_loss_backward huber_loss huber_loss_backward
    """
    )
    | onnx.REDUCTIONS
)
"""Reductions and normalisations: a few operations per element, which take less time than bytes."""

GATHERS = (
    _aten("embedding index index_select gather take take_along_dim _unsafe_index") | onnx.GATHERS
)
"""Operators that pick rows of their first argument."""

OTHERS = (
    _aten(
        """
    embedding_dense_backward index_put _index_put_impl _unsafe_index_put index_add index_copy
    index_fill scatter scatter_add scatter_reduce masked_scatter masked_scatter_backward topk sort
    searchsorted bucketize bincount histc multinomial _embedding_bag _embedding_bag_forward_only
    _embedding_bag_dense_backward max_pool1d max_pool2d_with_indices
    max_pool2d_with_indices_backward max_pool3d_with_indices max_pool3d_with_indices_backward
    avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
    _adaptive_avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward
    upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d upsample_nearest2d_backward
    upsample_nearest3d upsample_nearest3d_backward _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact2d_backward upsample_linear1d
    upsample_linear1d_backward upsample_bilinear2d upsample_bilinear2d_backward
    _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward upsample_bicubic2d
    upsample_bicubic2d_backward _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward
    upsample_trilinear3d upsample_trilinear3d_backward grid_sampler_2d grid_sampler_2d_backward
    glu glu_backward isin kthvalue mode median nanmedian trace diagonal_backward
    """
    )
    | onnx.OTHERS
)
"""Pools, scatters and sorts: they move bytes in no simple order."""

ELEMENTWISE = _aten(
    """
    hardswish hardswish_backward hardsigmoid_backward hardtanh_backward hardshrink_backward
    softshrink_backward elu_backward leaky_relu_backward mish_backward softplus_backward
    log_sigmoid_forward log_sigmoid_backward _prelu_kernel _prelu_kernel_backward
    """
)
"""Elementwise operators without PyTorch's tag."""

RANDOM = _aten(
    """
    native_dropout _fused_dropout rand rand_like randn randn_like randint randint_like randperm
    bernoulli normal normal_functional uniform exponential multinomial
    """
)
"""Operators that draw random numbers."""

LISTED = COPIES | FILLS | REDUCTIONS | GATHERS | OTHERS | ELEMENTWISE
"""Operators that cost only the bytes they move."""

STREAMS = COPIES | FILLS | REDUCTIONS
"""Operators that a compiler fuses with elementwise neighbours."""
