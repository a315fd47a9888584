"""Types of arrays that many modules pass on; their axes stand where they are used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
