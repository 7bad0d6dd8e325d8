"""Soft-margin boosting: the weak learner is the oracle, and the multipliers of the cuts are the ensemble."""

from cutplane.boosting.hypothesis_matrix import Column, HypothesisMatrix
from cutplane.boosting.methods import CorrectiveERLPBoost, ERLPBoost, LPBoost, MLPBoost
from cutplane.boosting.result import BoostingResult, Ensemble, plot_margins
from cutplane.boosting.soft_margin import EarlyStopping, SoftMargin
from cutplane.boosting.stumps import DecisionStumps, Stump
from cutplane.boosting.weak_learner import SklearnLearner

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
