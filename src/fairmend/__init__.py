"""Audit, explain and mend a black-box classifier that treats groups differently."""

# ruff: noqa: E402
from fairmend import interrupts

interrupts.watch()  # before anything that takes time to import

from typing import TYPE_CHECKING, Any

from fairmend import datasets
from fairmend.audit import Audit, audit, audit_data
from fairmend.costs import Cost
from fairmend.counterfactual import Counterfactual, counterfactual, counterfactual_data
from fairmend.data import AuditData, Population, tabulate
from fairmend.descent import descend
from fairmend.disparity import FDR, FNR, FPR, SP, Alignment, Combination, Disparity, RateGap
from fairmend.errors import (
    ArtifactError,
    DataError,
    FairmendError,
    FairmendWarning,
    MissingExtra,
    ModelError,
    RepairRefused,
)
from fairmend.model import BlackBox
from fairmend.projection import project

if TYPE_CHECKING:
    from fairmend.artifact import load
    from fairmend.classifier import RepairedClassifier
    from fairmend.remote import RemoteModel

__version__ = "0.1.0"

__all__ = [
    "FDR",
    "FNR",
    "FPR",
    "SP",
    "Alignment",
    "ArtifactError",
    "Audit",
    "AuditData",
    "BlackBox",
    "Combination",
    "Cost",
    "Counterfactual",
    "DataError",
    "Disparity",
    "FairmendError",
    "FairmendWarning",
    "MissingExtra",
    "ModelError",
    "Population",
    "RateGap",
    "RemoteModel",
    "RepairRefused",
    "RepairedClassifier",
    "__version__",
    "audit",
    "audit_data",
    "counterfactual",
    "counterfactual_data",
    "datasets",
    "descend",
    "load",
    "project",
    "tabulate",
]


def __getattr__(name: str) -> Any:
    """Load the estimator on first use: it is a scikit-learn class, and that takes a while."""
    if name == "RepairedClassifier":
        from fairmend.classifier import RepairedClassifier

        return RepairedClassifier
    if name == "RemoteModel":
        from fairmend.remote import RemoteModel

        return RemoteModel
    if name == "load":
        from fairmend.artifact import load

        return load
    raise AttributeError(f"module 'fairmend' has no attribute {name!r}")
