"""Inner products of many rows with many units, sixteen at a time."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed
from memvec.kernels._compile import fast_kernel, inner_kernel

# Rows and units that are multiplied before their products are read: 64 rows of 384 entries and the
# products stay in the second-level cache.
ROWS, UNITS = 64, 128
_SIDE = 4


@inner_kernel
def _sixteen(a, b, c, d, e, f, g, h):
    """Return the inner products of four rows with e, then with f, g and h.

    A row that was loaded serves four products: one product at a time waits for memory.
    """
    zero = np.float32(0.0)
    ae, be, ce, de, af, bf, cf, df = zero, zero, zero, zero, zero, zero, zero, zero
    ag, bg, cg, dg, ah, bh, ch, dh = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(a.shape[0]):
        ae, be, ce, de = ae + a[k] * e[k], be + b[k] * e[k], ce + c[k] * e[k], de + d[k] * e[k]
        af, bf, cf, df = af + a[k] * f[k], bf + b[k] * f[k], cf + c[k] * f[k], df + d[k] * f[k]
        ag, bg, cg, dg = ag + a[k] * g[k], bg + b[k] * g[k], cg + c[k] * g[k], dg + d[k] * g[k]
        ah, bh, ch, dh = ah + a[k] * h[k], bh + b[k] * h[k], ch + c[k] * h[k], dh + d[k] * h[k]
    return (ae, be, ce, de), (af, bf, cf, df), (ag, bg, cg, dg), (ah, bh, ch, dh)


@fast_kernel
def products(rows, chosen, units, out):
    """Fill the inner products of some rows with units.

    A product does not depend on what else is multiplied: all are made in fours, and where rows or
    units end, the last is taken again.

    Parameters
    ----------
    rows : IN float32 (n_rows, dim)
    chosen : IN int (n_chosen,)
        Numbers of rows.
    units : IN float32 (n_units, dim)
    out : OUT float32 (≥ n_chosen, ≥ n_units)
    """
    rows, units = borrowed(rows), borrowed(units)
    last_row, last_unit = chosen.shape[0] - 1, units.shape[0] - 1
    for i in range(0, last_row + 1, _SIDE):
        at = i, min(i + 1, last_row), min(i + 2, last_row), min(i + 3, last_row)
        a, b = rows[chosen[at[0]]], rows[chosen[at[1]]]
        c, d = rows[chosen[at[2]]], rows[chosen[at[3]]]
        for j in range(0, last_unit + 1, _SIDE):
            to = j, min(j + 1, last_unit), min(j + 2, last_unit), min(j + 3, last_unit)
            tile = _sixteen(a, b, c, d, units[to[0]], units[to[1]], units[to[2]], units[to[3]])
            for x in range(_SIDE):
                for y in range(_SIDE):
                    out[at[y], to[x]] = tile[x][y]
