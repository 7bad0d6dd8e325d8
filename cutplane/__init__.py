"""cutplane: declare a convex learning problem, solve it with cutting planes, and prove it."""
# Names are imported "as" themselves, because type checkers take these for public ones.
# ruff: noqa: I001

from cutplane import (
    boosting as boosting,
    datasets as datasets,
    decomposition as decomposition,
    forms as forms,
    graphical as graphical,
    kernels as kernels,
    linear as linear,
    lines as lines,
    losses as losses,
    measures as measures,
    mkl as mkl,
    stopping as stopping,
    structured as structured,
    testing as testing,
)
from cutplane.decomposition import LagrangianDual as LagrangianDual, ValueFunction as ValueFunction
from cutplane.engine.driver import Log as Log
from cutplane.engine.path import ExactPath as ExactPath, Path as Path
from cutplane.engine.storage import load as load
from cutplane.exceptions import (
    BackendError as BackendError,
    CutplaneError as CutplaneError,
    InvalidInputError as InvalidInputError,
    MissingCapabilityError as MissingCapabilityError,
    MissingExtraError as MissingExtraError,
    NotConvexError as NotConvexError,
    OracleError as OracleError,
    OutOfMemoryError as OutOfMemoryError,
)
from cutplane.linear import Portfolio as Portfolio
from cutplane.masters.select import Backend as Backend
from cutplane.methods import (
    BMRM as BMRM,
    LBFGS as LBFGS,
    OCAS as OCAS,
    BlockFrankWolfe as BlockFrankWolfe,
    Direct as Direct,
    FrankWolfe as FrankWolfe,
    Kelley as Kelley,
    LevelBundle as LevelBundle,
    ProximalBundle as ProximalBundle,
    Relay as Relay,
)
from cutplane.problem import Problem as Problem
from cutplane.recognition import RecognisedModel as RecognisedModel, from_cvxpy as from_cvxpy
from cutplane.regularizers import (
    L1 as L1,
    L2 as L2,
    CvxpyRegularizer as CvxpyRegularizer,
    ElasticNet as ElasticNet,
    GroupLasso as GroupLasso,
    LInf as LInf,
    NegativeEntropy as NegativeEntropy,
    NoRegularizer as NoRegularizer,
    NuclearNorm as NuclearNorm,
    QuadraticForm as QuadraticForm,
    Regularizer as Regularizer,
    RegularizerSum as RegularizerSum,
    RelativeEntropy as RelativeEntropy,
    SpectralNorm as SpectralNorm,
    SquaredGroupNorm as SquaredGroupNorm,
    total_variation as total_variation,
    trend_filter as trend_filter,
)
from cutplane.report import plotting as plotting
from cutplane.report.compare import Comparison as Comparison, compare as compare
from cutplane.report.explore import Explorer as Explorer, explore as explore, pictures as pictures
from cutplane.result import Result as Result
from cutplane.risks import (
    CompositeObjective as CompositeObjective,
    CvxpyRisk as CvxpyRisk,
    ImagedRisk as ImagedRisk,
    LinearObjective as LinearObjective,
    LinearRisk as LinearRisk,
    Maximum as Maximum,
    MeasureRisk as MeasureRisk,
    MulticlassRisk as MulticlassRisk,
    NoveltyRisk as NoveltyRisk,
    OnDemandRisk as OnDemandRisk,
    OracleRisk as OracleRisk,
    OrdinalRisk as OrdinalRisk,
    RankingRisk as RankingRisk,
    Risk as Risk,
    WeightedSum as WeightedSum,
    autodiff_risk as autodiff_risk,
    maximum as maximum,
    risk as risk,
)
from cutplane.runtime.threads import get_threads as get_threads, set_threads as set_threads
from cutplane.sets import (
    Box as Box,
    CappedSimplex as CappedSimplex,
    CvxpySet as CvxpySet,
    FeasibleSet as FeasibleSet,
    HalfSpace as HalfSpace,
    HalfSpaces as HalfSpaces,
    L1Ball as L1Ball,
    L2Ball as L2Ball,
    LinfBall as LinfBall,
    NonnegativeBall as NonnegativeBall,
    NonnegativeOrthant as NonnegativeOrthant,
    Polyhedron as Polyhedron,
    PSDCone as PSDCone,
    SeparationOracle as SeparationOracle,
    Simplex as Simplex,
    WholeSpace as WholeSpace,
    separation_oracle as separation_oracle,
)
from cutplane.status import Status as Status
from cutplane.structured import StructuredRisk as StructuredRisk

__version__ = "0.1.0"
