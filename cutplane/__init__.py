"""cutplane: declare a convex learning problem, solve it with cutting planes, and prove it."""

from cutplane import boosting, datasets, losses, plotting, stopping, testing
from cutplane.callbacks import Log
from cutplane.compare import Comparison, compare
from cutplane.exceptions import (
    BackendError,
    CutplaneError,
    InvalidInputError,
    MissingCapabilityError,
    MissingExtraError,
    NotConvexError,
    OracleError,
)
from cutplane.masters.select import Backend
from cutplane.methods import BMRM, OCAS, FrankWolfe, Kelley, LevelBundle, ProximalBundle
from cutplane.path import Path
from cutplane.problem import Problem
from cutplane.regularizers import (
    L1,
    L2,
    CvxpyRegularizer,
    ElasticNet,
    NegativeEntropy,
    NoRegularizer,
    QuadraticForm,
    Regularizer,
    RelativeEntropy,
    SquaredGroupNorm,
)
from cutplane.result import Result
from cutplane.risks import (
    CvxpyRisk,
    ImagedRisk,
    LinearObjective,
    LinearRisk,
    MulticlassRisk,
    NoveltyRisk,
    OracleRisk,
    OrdinalRisk,
    Risk,
    WeightedSum,
    risk,
)
from cutplane.sets import (
    Box,
    CappedSimplex,
    CvxpySet,
    FeasibleSet,
    HalfSpace,
    L1Ball,
    L2Ball,
    LinfBall,
    NonnegativeOrthant,
    Polyhedron,
    SeparationOracle,
    Simplex,
    WholeSpace,
    separation_oracle,
)
from cutplane.status import Status
from cutplane.storage import load
from cutplane.threads import get_threads, set_threads

__all__ = [
    "BMRM",
    "L1",
    "L2",
    "OCAS",
    "Backend",
    "BackendError",
    "Box",
    "CappedSimplex",
    "Comparison",
    "CutplaneError",
    "CvxpyRegularizer",
    "CvxpyRisk",
    "CvxpySet",
    "ElasticNet",
    "FeasibleSet",
    "FrankWolfe",
    "HalfSpace",
    "ImagedRisk",
    "InvalidInputError",
    "Kelley",
    "L1Ball",
    "L2Ball",
    "LevelBundle",
    "LinearObjective",
    "LinearRisk",
    "LinfBall",
    "Log",
    "MissingCapabilityError",
    "MissingExtraError",
    "MulticlassRisk",
    "NegativeEntropy",
    "NoRegularizer",
    "NonnegativeOrthant",
    "NotConvexError",
    "NoveltyRisk",
    "OracleError",
    "OracleRisk",
    "OrdinalRisk",
    "Path",
    "Polyhedron",
    "Problem",
    "ProximalBundle",
    "QuadraticForm",
    "Regularizer",
    "RelativeEntropy",
    "Result",
    "Risk",
    "SeparationOracle",
    "Simplex",
    "SquaredGroupNorm",
    "Status",
    "WeightedSum",
    "WholeSpace",
    "boosting",
    "compare",
    "datasets",
    "get_threads",
    "load",
    "losses",
    "plotting",
    "risk",
    "separation_oracle",
    "set_threads",
    "stopping",
    "testing",
]

__version__ = "0.1.0"
