"""How the reference matches names: fields to columns by case or without it, and names for which there is no column."""

from pyiceberg import types as t


class Ambiguous(Exception):
    pass


def paths(kind, path=""):
    """Yield the dotted names of all columns."""
    match kind:
        case t.StructType():
            for f in kind.fields:
                yield f"{path}{f.name}"
                yield from paths(f.field_type, f"{path}{f.name}.")
        case t.ListType():
            yield from paths(kind.element_type, f"{path}element.")
        case t.MapType():
            yield from paths(kind.value_type, f"{path}value.")


def impossible(values, kind, ci, columns, path=""):
    """Whether a field of values of one column that is not null has no column, and none can be made for it.

    Its name is empty, or a dotted one that is a column's but for its case, or two fields differ by case only.
    """
    if isinstance(kind, t.ListType):
        items = [item for value in values if isinstance(value, list) for item in value]
        return impossible(items, kind.element_type, ci, columns, f"{path}element.")
    if isinstance(kind, t.MapType):
        items = [item for value in values if isinstance(value, dict) for item in value.values()]
        return impossible(items, kind.value_type, ci, columns, f"{path}value.")
    if not isinstance(kind, t.StructType):
        return False
    types = {f.name: f.field_type for f in kind.fields}
    known, new = [], []
    for value in (each for each in values if isinstance(each, dict)):
        try:
            known.append(renamed(value, list(types), ci))
        except Ambiguous:
            continue
        lacking = {n: v for n, v in value.items() if n not in types and (not ci or folded(n) not in map(folded, types))}
        new.append({name: item for name, item in lacking.items() if item is not None})
    if collides(new, ci) or any(not name or folded(f"{path}{name}") in columns for each in new for name in each):
        return True
    return any(
        impossible([each[name] for each in known if name in each], below, ci, columns, f"{path}{name}.")
        for name, below in types.items()
    )


def collides(objects, ci):
    """Whether new fields of objects that share columns, or fields inside of these, differ by case only, or have no name."""
    values = {}
    for name, value in ((name, value) for each in objects for name, value in each.items() if value is not None):
        values.setdefault(folded(name) if ci else name, []).append(value)
    if len({folded(name) for name in values}) < len(values) or ("" in values and len(values) > 1):
        return True
    for found in values.values():
        while found and all(isinstance(each, list) for each in found):
            found = [item for each in found for item in each if item is not None]
        if found and all(isinstance(each, dict) for each in found) and collides(found, ci):
            return True
    return False


def folded(name):
    """A name without its case, character by character as in Java; `İ` is `i`, with a dot above or without."""
    upper = [c.upper() for c in name]
    return "".join((u if len(u) == 1 else c).lower() for u, c in zip(upper, name)).replace("i\u0307", "i")


def renamed(value, names, case_insensitive):
    if not case_insensitive:
        return value
    result = {k: v for k, v in value.items() if k in names}
    for key, item in value.items():
        if key in names:
            continue
        fits = [n for n in names if folded(n) == folded(key)]
        if len(fits) > 1 or (fits and fits[0] in result):
            raise Ambiguous
        if fits:
            result[fits[0]] = item
    return result
