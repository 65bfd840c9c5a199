"""The rule of filters, slow and obvious, on the filter as users write it; and filters for Hypothesis."""

import operator

from hypothesis import strategies as st

from onlinehash.collection.filters import MAX_DEPTH

MISSING = object()
ORDERS = {"$lt": operator.lt, "$lte": operator.le, "$gt": operator.gt, "$gte": operator.ge}


def value_at(payload, path):
    for key in path.split("."):
        if not isinstance(payload, dict) or key not in payload:
            return MISSING
        payload = payload[key]
    return payload


def type_of(value):
    for name, types in (("null", type(None)), ("boolean", bool), ("number", (int, float)), ("string", str)):
        if isinstance(value, types):
            return name
    return "other"


def same(value, other):
    return type_of(value) == type_of(other) != "other" and value == other


def holds(value, conditions):
    if not isinstance(conditions, dict):
        conditions = {"$eq": conditions}
    for name, given in conditions.items():
        if name in ORDERS:
            passed = type_of(value) == type_of(given) and ORDERS[name](value, given)
        else:
            passed = {
                "$eq": lambda given: same(value, given),
                "$ne": lambda given: not same(value, given),
                "$in": lambda given: any(same(value, each) for each in given),
                "$nin": lambda given: not any(same(value, each) for each in given),
                "$contains": lambda given: isinstance(value, list) and any(same(each, given) for each in value),
                "$exists": lambda given: (value is not MISSING) == given,
                "$not": lambda given: not holds(value, given),
            }[name](given)
        if not passed:
            return False
    return True


def passes(payload, where):
    for name, given in where.items():
        if name == "$and":
            passed = all(passes(payload, part) for part in given)
        elif name == "$or":
            passed = any(passes(payload, part) for part in given)
        elif name == "$not":
            passed = not passes(payload, given)
        else:
            passed = holds(value_at(payload, name), given)
        if not passed:
            return False
    return True


PATHS = ["a", "b", "a.b", "a.a", "größe", "it's 100%", "0", "\\'", "a b/c\n"]
scalars = (
    st.sampled_from([None, True, False, 0, 1, -1, 2, 1.0, 0.1, 0.5, -0.0, 2**53 + 1, 2**63 - 1, -(2**63), 1e300])
    | st.sampled_from(["", "1", "true", "null", "a", "A", "b", "ß", "😀", "'", '"', "%s", "\\", "\n", "x" * 3000])
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-1e15, 1e15)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
)
ordered = scalars.filter(lambda value: type_of(value) in ("number", "string"))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "größe", "0"]), inner),
    max_leaves=3,
)
KEYS = ["a", "b", "größe", "it's 100%", "0", "\\'", "a b/c\n", "other"]
payloads = st.dictionaries(st.sampled_from(KEYS), values, max_size=4) | values
conditions = st.deferred(
    lambda: (
        scalars
        | st.dictionaries(st.sampled_from(["$eq", "$ne", "$contains"]), scalars, min_size=1)
        | st.dictionaries(st.sampled_from(list(ORDERS)), ordered, min_size=1, max_size=2)
        | st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(scalars, max_size=4), min_size=1)
        | st.fixed_dictionaries({"$exists": st.booleans()})
        | st.fixed_dictionaries({"$not": conditions.filter(lambda given: isinstance(given, dict))})
    )
)


def levels(given):
    """Return how deep a filter is nested."""
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return isinstance(given, dict) + max(map(levels, inner), default=0)


filters = st.recursive(
    st.dictionaries(st.sampled_from(PATHS), conditions, min_size=1, max_size=2),
    lambda inner: (
        st.fixed_dictionaries({"$not": inner})
        | st.dictionaries(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3), min_size=1)
    ),
    max_leaves=4,
).filter(lambda where: levels(where) <= MAX_DEPTH)
