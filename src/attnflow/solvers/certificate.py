"""Every maximum flow is proven by a bound or a cut of the same size, or it is not returned."""

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
"""How far a flow may be from its proof, relative to all that its source could send."""
LARGEST_OF_LITTLE = 1e-6
"""The same where a source can send so little that `MET`, at which searches stop, is more."""


def check_gaps(gaps: FloatArray, supply: FloatArray | float) -> float:
    """The largest distance between a flow and what proves it.

    ``supply`` is the sum of the edges of each flow's source: no flow is larger, so that rounding
    is in proportion to it. It is broadcast to the gaps. An infinite gap is a flow that was never
    computed.

    Raises:
        CertificateError: A gap is larger than rounding explains, in either direction.
    """
    found = np.abs(gaps)
    most = np.broadcast_to(supply, found.shape)
    allowed = np.maximum(LARGEST_GAP * most, np.minimum(2 * MET, LARGEST_OF_LITTLE * most))
    wrong = ~(found <= allowed)  # NaN is wrong, too
    if wrong.any():
        worst = np.argmax(found[wrong])
        msg = (
            f"a maximum flow failed its proof: it is {found[wrong][worst]:.2g} from the bound or "
            f"cut that it should equal (allowed: {allowed[wrong][worst]:.1g}, from a source whose "
            f"edges sum to {most[wrong][worst]:.2g}). No result is returned; please report this "
            "input"
        )
        raise CertificateError(msg)
    return float(found.max(initial=0.0))
