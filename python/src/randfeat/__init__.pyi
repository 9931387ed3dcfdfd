from . import attention as attention
from . import theory as theory
from ._advise import Advice as Advice
from ._advise import advise as advise
from ._estimators import AnomalyDetector as AnomalyDetector
from ._estimators import RandFeatClassifier as RandFeatClassifier
from ._estimators import RandFeatRegressor as RandFeatRegressor
from ._estimators import RandomFeatures as RandomFeatures
from ._lib import InputError as InputError
from ._lib import InternalError as InternalError
from ._lib import NoClosedFormError as NoClosedFormError
from ._lib import RandfeatError as RandfeatError
from ._lib import SurpriseWarning as SurpriseWarning
from ._lib import set_num_threads as set_num_threads
from ._lib import version as version
from ._map import Map as Map
from ._map import couplings as couplings
from ._map import families as families
from ._map import gram as gram
from ._map import kernels as kernels
from ._model import Model as Model
from ._model import Report as Report
from ._model import load as load

__version__: str
