"""Audit, explain and repair a black-box classifier that treats groups differently."""

# ruff: noqa: E402
from fairmend.cli import interrupts

interrupts.watch()  # before anything that takes time to import

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairmend import datasets
from fairmend._version import __version__
from fairmend.errors import (
    ArtifactError,
    DataError,
    FairmendError,
    FairmendWarning,
    MissingExtra,
    ModelError,
    RepairRefused,
)
from fairmend.explain.counterfactual import Counterfactual, counterfactual, counterfactual_data
from fairmend.explain.descent import descend
from fairmend.explain.projection import project
from fairmend.measure import elsewhere
from fairmend.measure.audit import audit, audit_data
from fairmend.measure.disparity import Combination, Disparity, MetricWords, RateGap
from fairmend.measure.metrics import FDR, FNR, FPR, SP, Alignment
from fairmend.measure.population import AuditData, Population
from fairmend.measure.result import Audit
from fairmend.measure.tabulate import tabulate
from fairmend.model.blackbox import BlackBox
from fairmend.repair.costs import Cost

if TYPE_CHECKING:
    from fairmend import engines
    from fairmend.artifact import load
    from fairmend.classifier import RepairedClassifier
    from fairmend.model.remote import RemoteModel
    from fairmend.search import Alternatives, alternatives

__all__ = [
    "FDR",
    "FNR",
    "FPR",
    "SP",
    "Alignment",
    "Alternatives",
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
    "MetricWords",
    "MissingExtra",
    "ModelError",
    "Population",
    "RateGap",
    "RemoteModel",
    "RepairRefused",
    "RepairedClassifier",
    "__version__",
    "alternatives",
    "audit",
    "audit_data",
    "counterfactual",
    "counterfactual_data",
    "datasets",
    "descend",
    "engines",
    "load",
    "project",
    "tabulate",
]


_LATER = {
    "Alternatives": "fairmend.search",
    "RemoteModel": "fairmend.model.remote",
    "RepairedClassifier": "fairmend.classifier",
    "alternatives": "fairmend.search",
    "load": "fairmend.artifact",
}
"""Loaded on first use: the estimator is a scikit-learn class, and importing that takes a while."""
elsewhere.register_later(partial(import_module, "fairmend.engines"))


def __getattr__(name: str) -> Any:
    if name == "engines":
        return import_module("fairmend.engines")
    if name not in _LATER:
        raise AttributeError(f"module 'fairmend' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
