"""References: methods to compare hashers with, whose size does not depend on a number of bits.

They learn like hashers, by ``partial_fit`` and ``snapshot``, from the same features: centred by the running mean of the
stream and scaled to unit length, or unchanged if the split has done that already.

========================  ==============================================  ===============================
name in a plan            stored per item                                 bits per item
========================  ==============================================  ===============================
``reference:float``       its features; ranked by cosine                  32 per feature
``reference:sign``        the signs of its features                       1 per feature
``reference:classifier``  the class that a linear classifier predicts     log2 of the classes, rounded up
``reference:hroh``        the class of HROH's highest score               log2 of the classes, rounded up
========================  ==============================================  ===============================
"""

from onlinehash.experiments.references._base import Reference, ReferenceEncoder
from onlinehash.experiments.references.classifier import ClassifierReference
from onlinehash.experiments.references.cosine import cosine_quality
from onlinehash.experiments.references.float import FloatReference
from onlinehash.experiments.references.hroh import HROHReference
from onlinehash.experiments.references.sign import SignReference

__all__ = [
    "REFERENCES",
    "ClassifierReference",
    "FloatReference",
    "HROHReference",
    "Reference",
    "ReferenceEncoder",
    "SignReference",
    "cosine_quality",
]

REFERENCES: dict[str, type[Reference]] = {
    "reference:float": FloatReference,
    "reference:sign": SignReference,
    "reference:classifier": ClassifierReference,
    "reference:hroh": HROHReference,
}
