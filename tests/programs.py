"""The full linear program of a repair: every coupling of the rows, solved by HiGHS."""

import numpy as np
from scipy.optimize import linprog

from fairmend.measure.metrics import FDR
from fairmend.measure.realised import RealisedGap
from fairmend.repair.costs import Cost, EditCost


def full_program(data, metrics, cost=None, level=1.0, kept=0.1):
    """min sum p_i T_ij C_ij over all couplings of group a's rows, its gaps to b at their aims.

    The least cost, or None where no coupling meets the constraints.
    """
    source, other = data["a"], data["b"]
    table = data.table.take(source.rows)
    price = EditCost.learn(table, source.mass, cost or Cost()).matrix(table, table)
    np.fill_diagonal(price, 0.0)
    m = len(source)
    allowed = np.isfinite(price)
    constraints, sides = [np.kron(np.eye(m), np.ones(m))], [np.ones(m)]
    for metric in metrics:
        gap = RealisedGap.between(metric, source, other, level=level)
        by_row = source.mass * gap.slope(source.outcome)
        constraints.append(np.outer(by_row, source.decision).reshape(1, -1))
        sides.append([by_row @ source.decision - gap.excess(source.decision)])
    # a share must be left that fdr is over, or turning nearly everybody away would close it
    positive = np.outer(source.mass, source.decision).reshape(1, -1)
    least = kept * source.mass @ source.decision if FDR in metrics else 0.0
    answer = linprog(
        (source.mass[:, None] * np.where(allowed, price, 0.0)).ravel(),
        A_eq=np.concatenate(constraints), b_eq=np.concatenate(sides),
        A_ub=-positive, b_ub=[-least],
        bounds=[(0, None if free else 0) for free in allowed.ravel()], method="highs",
    )  # fmt: skip
    assert answer.status in (0, 2)
    return answer.fun if answer.status == 0 else None
