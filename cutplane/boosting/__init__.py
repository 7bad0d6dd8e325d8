"""Soft-margin boosting: the weak learner is the oracle, the cuts' multipliers are the ensemble."""

from cutplane.boosting.early_stopping import EarlyStopping
from cutplane.boosting.ensemble import Ensemble
from cutplane.boosting.hypothesis_matrix import Column, HypothesisMatrix
from cutplane.boosting.methods import CorrectiveERLPBoost, ERLPBoost, LPBoost, MLPBoost
from cutplane.boosting.result import BoostingResult, plot_margins
from cutplane.boosting.sklearn_learner import SklearnLearner
from cutplane.boosting.soft_margin import SoftMargin
from cutplane.boosting.stumps import DecisionStumps, Stump

__all__ = [
    "BoostingResult",
    "Column",
    "CorrectiveERLPBoost",
    "DecisionStumps",
    "ERLPBoost",
    "EarlyStopping",
    "Ensemble",
    "HypothesisMatrix",
    "LPBoost",
    "MLPBoost",
    "SklearnLearner",
    "SoftMargin",
    "Stump",
    "plot_margins",
]
