"""From a counterfactual distribution to a plan: couple who people are with who they would be.

A coupling of P0 and Q with the least cost says with which probability each row turns into which
(the paper's Section 4). A problem says what, a solver how, a `Coupling` keeps both and what it is
worth: `solve` takes what suits the size, `solve_exact` is plain optimal transport with proof,
`solve_entropic` near it for what is larger, `solve_individually_fair` also treats similar people
similarly. `transport` goes as far as closes the gap that people experience; `paper` is Algorithm 1
and its coupling, to the letter.
"""

from fairmend.repair.transport.coupler import solve
from fairmend.repair.transport.entropic import solve_entropic
from fairmend.repair.transport.fair import solve_individually_fair
from fairmend.repair.transport.methods import paper, transport
from fairmend.repair.transport.plan import CouplingPlan
from fairmend.repair.transport.prices import MatrixPrices, PointPrices, Prices
from fairmend.repair.transport.problem import (
    Coupling,
    CouplingStatus,
    TransportProblem,
    lower_bound,
)
from fairmend.repair.transport.simplex import ArcMemory, solve_exact

__all__ = [
    "ArcMemory",
    "Coupling",
    "CouplingPlan",
    "CouplingStatus",
    "MatrixPrices",
    "PointPrices",
    "Prices",
    "TransportProblem",
    "lower_bound",
    "paper",
    "solve",
    "solve_entropic",
    "solve_exact",
    "solve_individually_fair",
    "transport",
]
