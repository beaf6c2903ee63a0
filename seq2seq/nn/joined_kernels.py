"""Attention of joined sentences for a GPU, in Triton (Tillet et al. 2019).

FlashAttention (Dao 2023) for short sentences: a block of queries spans several sentences, and looks
at the keys from the first sentence's to the last one's; no sentence has a block to itself. Scores
and weights never leave a multiprocessor; the backward pass computes them again.

Vectors are (M, H, E) and lie one after the other; a query sees the keys from its `first` up to, not
including, its `end`, and the queries that see a key are given likewise. Sums are in fp32, products
in the type of the vectors. Names with d_ are gradients of the loss, `gradient` that of the output.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _places(rows, count, head, HEADS: tl.constexpr, E: tl.constexpr, WIDTH: tl.constexpr):
    """Where rows of one head stand, (rows, WIDTH), and which of these places exist."""
    columns = tl.arange(0, WIDTH)
    places = (rows.to(tl.int64) * HEADS + head)[:, None] * E + columns[None, :]
    return places, (rows < count)[:, None] & (columns < E)[None, :]


@triton.jit
def _block(x, rows, count, head, HEADS: tl.constexpr, E: tl.constexpr, WIDTH: tl.constexpr):
    places, inside = _places(rows, count, head, HEADS, E, WIDTH)
    return tl.load(x + places, mask=inside, other=0.0)


@triton.jit
def _store(x, rows, count, head, value, HEADS: tl.constexpr, E: tl.constexpr, WIDTH: tl.constexpr):
    places, inside = _places(rows, count, head, HEADS, E, WIDTH)
    tl.store(x + places, value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _span(firsts, ends, rows, count):
    """What each of `rows` sees, from a first one to before an end; empty for rows past `count`."""
    first = tl.load(firsts + rows, mask=rows < count, other=2147483647)
    return first, tl.load(ends + rows, mask=rows < count, other=0)


@triton.jit
def _kept(seed, head, rows, columns, rate):
    """1 / (1 - rate) where a weight is kept, else 0: the same in all kernels. `columns` count from
    the first key of a span; all draws are different if no span has more than 4096 keys."""
    drawn = tl.rand(seed + head, rows * 4096 + columns)
    return tl.where(drawn < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def forward(
    query, key, value, output, log_sums, firsts, ends, seeds, queries, keys, scale, rate,
    HEADS: tl.constexpr, E: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """softmax(Q K' / sqrt(E)) V of a block of queries. Keys come a step at a time, and sums so far
    shrink when a higher score comes (Dao 2023, algorithm 1). log_sums: log2 of exponentials' sums.
    """
    head = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    first, end = _span(firsts, ends, rows, queries)
    q = _block(query, rows, queries, head, HEADS, E, WIDTH)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(tl.min(first), tl.max(end), COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        k = _block(key, columns, keys, head, HEADS, E, WIDTH)
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] < end[:, None])
        scores = tl.where(seen, tl.dot(q, tl.trans(k)) * (scale * LOG2_E), float("-inf"))
        new = tl.maximum(highest, tl.max(scores, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp2(scores - shift[:, None])
        shrunk = tl.exp2(highest - shift)
        total = total * shrunk + tl.sum(weights, 1)
        if DROPS:
            place = columns[None, :] - first[:, None]
            weights *= _kept(tl.load(seeds), head, rows[:, None], place, rate)
        v = _block(value, columns, keys, head, HEADS, E, WIDTH)
        mixed = mixed * shrunk[:, None] + tl.dot(weights.to(v.dtype), v)
        highest = new
    blind = total == 0.0
    total = tl.where(blind, 1.0, total)
    _store(output, rows, queries, head, mixed / total[:, None], HEADS, E, WIDTH)
    log_sum = tl.where(blind, 0.0, highest + tl.log2(total))
    tl.store(log_sums + head * queries + rows, log_sum, mask=rows < queries)


@triton.jit
def backward_queries(
    query, key, value, output, gradient, query_gradient, log_sums, deltas, firsts, ends, seeds,
    queries, keys, scale, rate,
    HEADS: tl.constexpr, E: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """dQ = dS K / sqrt(E), where dS = P (dP - delta), dP = dO V' and delta are the sums of dO O,
    which are kept for `backward_keys` (Dao 2023, algorithm 2). P are the weights, S the scores."""
    head = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    first, end = _span(firsts, ends, rows, queries)
    q = _block(query, rows, queries, head, HEADS, E, WIDTH)
    g = _block(gradient, rows, queries, head, HEADS, E, WIDTH)
    o = _block(output, rows, queries, head, HEADS, E, WIDTH)
    log_sum = tl.load(log_sums + head * queries + rows, mask=rows < queries, other=0.0)
    delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(deltas + head * queries + rows, delta, mask=rows < queries)
    d_query = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(tl.min(first), tl.max(end), COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        k = _block(key, columns, keys, head, HEADS, E, WIDTH)
        v = _block(value, columns, keys, head, HEADS, E, WIDTH)
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] < end[:, None])
        scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E) - log_sum[:, None]
        weights = tl.where(seen, tl.exp2(scores), 0.0)
        d_weights = tl.dot(g, tl.trans(v))
        if DROPS:
            place = columns[None, :] - first[:, None]
            d_weights *= _kept(tl.load(seeds), head, rows[:, None], place, rate)
        d_scores = weights * (d_weights - delta[:, None])
        d_query += tl.dot(d_scores.to(k.dtype), k)
    _store(query_gradient, rows, queries, head, d_query * scale, HEADS, E, WIDTH)


@triton.jit
def backward_keys(
    query, key, value, gradient, key_gradient, value_gradient, log_sums, deltas, firsts, ends,
    seen_firsts, seen_ends, seeds, queries, keys, scale, rate,
    HEADS: tl.constexpr, E: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """dK = dS' Q / sqrt(E) and dV = P' dO, with the names of `backward_queries`."""
    head = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    by_first, by_end = _span(seen_firsts, seen_ends, columns, keys)
    k = _block(key, columns, keys, head, HEADS, E, WIDTH)
    v = _block(value, columns, keys, head, HEADS, E, WIDTH)
    d_key = tl.zeros([COLUMNS, WIDTH], tl.float32)
    d_value = tl.zeros([COLUMNS, WIDTH], tl.float32)
    for start in range(tl.min(by_first), tl.max(by_end), ROWS):
        rows = start + tl.arange(0, ROWS)
        first, end = _span(firsts, ends, rows, queries)
        q = _block(query, rows, queries, head, HEADS, E, WIDTH)
        g = _block(gradient, rows, queries, head, HEADS, E, WIDTH)
        log_sum = tl.load(log_sums + head * queries + rows, mask=rows < queries, other=0.0)
        delta = tl.load(deltas + head * queries + rows, mask=rows < queries, other=0.0)
        seen = (columns[:, None] >= first[None, :]) & (columns[:, None] < end[None, :])
        scores = tl.dot(k, tl.trans(q)) * (scale * LOG2_E) - log_sum[None, :]
        weights = tl.where(seen, tl.exp2(scores), 0.0)
        d_weights = tl.dot(v, tl.trans(g))
        if DROPS:
            place = columns[:, None] - first[None, :]
            kept = _kept(tl.load(seeds), head, rows[None, :], place, rate)
            d_weights *= kept
            d_value += tl.dot((weights * kept).to(g.dtype), g)
        else:
            d_value += tl.dot(weights.to(g.dtype), g)
        d_scores = weights * (d_weights - delta[None, :])
        d_key += tl.dot(d_scores.to(q.dtype), q)
    _store(key_gradient, columns, keys, head, d_key * scale, HEADS, E, WIDTH)
    _store(value_gradient, columns, keys, head, d_value, HEADS, E, WIDTH)
