"""References: methods to compare hashers with. All but ``reference:hcsdh`` have a size of their own.

They learn like hashers, by ``partial_fit`` and ``snapshot``, from the same features: centred by the running mean of the
stream and scaled to unit length, or unchanged if the split has done that already.

========================  ===============================================  ===============================
name in a plan            stored per item                                  bits per item
========================  ===============================================  ===============================
``reference:float``       its features; ranked by cosine                   32 per feature
``reference:sign``        the signs of its features                        1 per feature
``reference:classifier``  the class that a linear classifier predicts      log2 of the classes, rounded up
``reference:hroh``        the class of HROH's highest score                log2 of the classes, rounded up
``reference:knn``         the class of its 10 nearest vectors              log2 of the classes, rounded up
``reference:hcsdh``       a code of HC-SDH, learned from all rows at once  ``bits`` of the plan
========================  ===============================================  ===============================
"""

from onlinehash.experiments.references._base import Reference, ReferenceEncoder
from onlinehash.experiments.references.classifier import ClassifierReference
from onlinehash.experiments.references.cosine import cosine_quality
from onlinehash.experiments.references.float import FloatReference
from onlinehash.experiments.references.hcsdh import HCSDHReference
from onlinehash.experiments.references.hroh import HROHReference
from onlinehash.experiments.references.knn import NeighboursReference
from onlinehash.experiments.references.sign import SignReference

__all__ = [
    "REFERENCES",
    "ClassifierReference",
    "FloatReference",
    "HCSDHReference",
    "HROHReference",
    "NeighboursReference",
    "Reference",
    "ReferenceEncoder",
    "SignReference",
    "cosine_quality",
    "takes_bits",
]

REFERENCES: dict[str, type[Reference]] = {
    "reference:float": FloatReference,
    "reference:sign": SignReference,
    "reference:classifier": ClassifierReference,
    "reference:hroh": HROHReference,
    "reference:knn": NeighboursReference,
    "reference:hcsdh": HCSDHReference,
}


def takes_bits(method: str) -> bool:
    """Return whether a method takes ``n_bits`` and ``random_state``: all hashers and some references do.

    Examples
    --------
    >>> takes_bits("hcoh"), takes_bits("reference:hcsdh"), takes_bits("reference:float")
    (True, True, False)
    """
    return method not in REFERENCES or REFERENCES[method].stored_bits(1, 2) is None
