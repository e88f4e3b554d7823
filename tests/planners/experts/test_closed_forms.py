"""Every schedule against its closed-form bubble and peak memory, exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from milp_plan.kinds.pipeline.experts import WORDS

from .figures import TIMES, Figures, Times, uniform_shop

SIZES = tuple(product((1, 2, 3, 5), (1, 2, 4, 10)))


def figures(name: str, p: int, m: int, fbw: Times, c: int = 0, **options: object) -> Figures:
    shop, scale, activation = uniform_shop(p, m, fbw, c, **options)  # type: ignore[arg-type]
    words = WORDS[name](shop)
    assert words is not None
    return Figures(shop, words, scale, activation)


@pytest.mark.parametrize("fbw", TIMES)
@pytest.mark.parametrize("joint", [True, False])
def test_one_forward_one_backward(fbw: Times, joint: bool) -> None:
    tail = sum(fbw) if joint else fbw[0] + fbw[1]
    for p, m in SIZES:
        found = figures("1f1b", p, m, fbw, joint=joint)
        assert found.bubble == (p - 1) * tail
        assert found.peaks == [min(m, p - d) for d in range(p)]


@pytest.mark.parametrize("fbw", TIMES[1:4])
@pytest.mark.parametrize("joint", [True, False])
def test_gpipe_and_eager_pay_each_transfer_once(fbw: Times, joint: bool) -> None:
    tail = sum(fbw) if joint else fbw[0] + fbw[1]
    backward = tail - fbw[0]
    for (p, m), c in product(SIZES, sorted({0, min(fbw[0], backward)})):
        gpipe = figures("gpipe", p, m, fbw, c, joint=joint)
        eager = figures("eager_1f1b", p, m, fbw, c, joint=joint)
        assert gpipe.bubble == (p - 1) * (tail + 2 * c)
        assert gpipe.peaks == [m] * p
        assert eager.peaks == [min(m, 2 * (p - d) - 1) for d in range(p)]
        assert eager.bubble == (p - 1) * (tail + 2 * c)


@pytest.mark.parametrize(("chunks", "joint"), [(2, True), (2, False), (3, True), (4, False)])
def test_interleaving_divides_the_bubble_by_the_chunks(chunks: int, joint: bool) -> None:
    for fbw, p, rounds in product(TIMES, (2, 4), (1, 3)):
        if not joint and fbw[2] > fbw[1]:
            continue
        m = p * rounds
        found = figures("interleaved_1f1b", p, m, fbw, joint=joint, chunks=chunks)
        tail = sum(fbw) if joint else fbw[0] + fbw[1]
        assert found.bubble == Fraction((p - 1) * tail, chunks)
        ahead = [2 * (p - 1 - d) + (chunks - 1) * p for d in range(p)]
        assert found.peaks == [Fraction(min(m * chunks, a + 1), chunks) for a in ahead]


@pytest.mark.parametrize("fbw", TIMES)
def test_zb_h1(fbw: Times) -> None:
    f, b, w = fbw
    for p, m in SIZES:
        found = figures("zb_h1", p, m, fbw)
        assert found.bubble == (p - 1) * (f + b) - (min(m, p) - 1) * min(b, w)
        assert found.peaks == [min(m, p)] * p
        if m >= p and w <= b:
            assert found.bubble == found.span_bubble == (p - 1) * (f + b - w)


@pytest.mark.parametrize("fbw", TIMES)
def test_zb_h2(fbw: Times) -> None:
    f, b, w = fbw
    for (p, m), c in product(SIZES, (0, 1)):
        found = figures("zb_h2", p, m, fbw, c)
        assert found.peaks == [min(m, 2 * p - 1)] * p
        if m < 2 * p - 1:
            continue
        rest = (p - 1) * max(0, f + b + 2 * c - 2 * w)
        assert found.bubble == max((p - 1) * (f + c), rest)
        if c == 0 or w <= b:
            assert found.span_bubble == rest


@pytest.mark.parametrize("fbw", [(1, 1, 1), (3, 3, 3)])
def test_the_greedy_reaches_no_bubble_with_twice_the_memory(fbw: Times) -> None:
    """F = B = W: ZB-1p a third of 1F1B's bubble, ZB-2p none (README of the authors' code)."""
    for p, m in ((2, 5), (4, 9), (6, 12), (8, 16)):
        once, twice = (figures(name, p, m, fbw) for name in ("zb_1p", "zb_2p"))
        assert once.span_bubble == (p - 1) * fbw[0]
        assert twice.span_bubble == 0
        assert max(once.peaks) <= p
        assert max(twice.peaks) <= 2 * p
