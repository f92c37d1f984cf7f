"""Audit, explain and mend a black-box classifier that treats groups differently."""

from fairmend import datasets
from fairmend.audit import Audit, audit, audit_data
from fairmend.counterfactual import Counterfactual, counterfactual, counterfactual_data
from fairmend.data import AuditData, Population, tabulate
from fairmend.descent import descend
from fairmend.disparity import FDR, FNR, FPR, SP, Alignment, Combination, Disparity, RateGap
from fairmend.errors import DataError, FairmendError, FairmendWarning, MissingExtra, ModelError
from fairmend.model import BlackBox
from fairmend.projection import project

__version__ = "0.1.0"

__all__ = [
    "FDR",
    "FNR",
    "FPR",
    "SP",
    "Alignment",
    "Audit",
    "AuditData",
    "BlackBox",
    "Combination",
    "Counterfactual",
    "DataError",
    "Disparity",
    "FairmendError",
    "FairmendWarning",
    "MissingExtra",
    "ModelError",
    "Population",
    "RateGap",
    "__version__",
    "audit",
    "audit_data",
    "counterfactual",
    "counterfactual_data",
    "datasets",
    "descend",
    "project",
    "tabulate",
]
