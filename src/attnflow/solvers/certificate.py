"""Every maximum flow comes with its proof, a bound or a cut of the same size: without, no result."""

from __future__ import annotations

import numpy as np

from attnflow.errors import CertificateError
from attnflow.records.types import FloatArray

MET = 1e-12
"""A flow this close to a bound is the maximum.

Flow and bound are sums in different orders, which rounding keeps apart: a comparison for equality
would start a search for flows that are complete.
"""
LARGEST_GAP = 1e-9
"""How far a flow may be from its proof, beside all that its source could send."""


def check_gaps(gaps: FloatArray, supply: FloatArray | float) -> float:
    """The largest distance between a flow and what proves it.

    ``supply`` is the sum of the edges of each flow's source: no flow is larger, so that rounding
    is in proportion to it. It is broadcast to the gaps. A gap of infinity is a flow that nobody
    computed.

    Raises:
        CertificateError: A gap is larger than rounding explains, in either direction.
    """
    found = np.abs(gaps)
    # Searches stop within `MET` of a bound, however little there is to send.
    allowed = np.broadcast_to(LARGEST_GAP * np.asarray(supply) + 2 * MET, found.shape)
    wrong = ~(found <= allowed)  # NaN is not
    if wrong.any():
        worst = np.flatnonzero(wrong)[np.argmax(found[wrong])]
        msg = (
            f"{int(wrong.sum())} of {found.size} maximum flows failed their proof: the worst is "
            f"{found.flat[worst]:.2g} from the bound or cut that it should equal (allowed: "
            f"{allowed.flat[worst]:.1g}). None of them is returned; please report this input"
        )
        raise CertificateError(msg)
    return float(found.max(initial=0.0))
