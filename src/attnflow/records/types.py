"""The array types of the records."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Array = Any  # a NumPy array or a torch tensor: attnflow imports torch only where a model is run
