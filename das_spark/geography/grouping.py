"""Stage 1: cutting the children of a geounit into groups of about the root of their number.

Source: Cumings-Menon et al., section 4. The size limit is that of the released code, which exceeds the paper's by one
where the number of children is a square number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

_Element = TypeVar("_Element")

#: From position in the list, length of the list and size limit, all (elements,), to the number of the group.
GroupRule: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]


def size_limits(members: NDArray[np.int64], fanout_cutoff: int) -> NDArray[np.int64]:
    """Largest number of elements of a group (S-12, S-13).

    Args:
        members: (parents,) number n of elements below each parent.
        fanout_cutoff: What is added to the root of n, besides 1.

    Returns:
        Array (parents,): floor(sqrt(n) + fanout_cutoff + 1).
    """
    return np.floor(np.sqrt(members)).astype(np.int64) + fanout_cutoff + 1


def full_groups(position: NDArray[np.int64], length: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups of exactly the limit, and a last one of what is left ("orig").

    Args:
        position: (elements,) position of each element in its list, from 0.
        length: (elements,) length of that list; not used.
        limit: (elements,) largest number of elements of a group of that list.

    Returns:
        Array (elements,): number of the group in its list, from 0.
    """
    return position // limit


def even_groups(position: NDArray[np.int64], length: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.int64]:
    """As few groups, of sizes that differ by one at most, the smaller first ("even").

    Lists that fill their groups, or leave one element over, are cut as in `full_groups`.

    Args:
        position: (elements,) position of each element in its list, from 0.
        length: (elements,) length of that list.
        limit: (elements,) largest number of elements of a group of that list.

    Returns:
        Array (elements,): number of the group in its list, from 0.
    """
    groups = -(-length // limit)
    small = length // groups
    number_small = groups - length % groups
    border = number_small * small
    spread = np.where(position < border, position // small, number_small + (position - border) // (small + 1))
    return np.where((length <= limit) | (length % limit <= 1), position // limit, spread)


#: Name of a way to cut a list -> the rule.
GROUP_TYPES: Final[Mapping[str, GroupRule]] = {"orig": full_groups, "even": even_groups}


def cut(elements: Sequence[_Element], limit: int, group_type: str) -> list[list[_Element]]:
    """Cut one list into groups of neighbours.

    Args:
        elements: The list, not empty.
        limit: Largest number of elements of a group.
        group_type: A name in `GROUP_TYPES`.

    Returns:
        The groups, in order.
    """
    length = np.full(len(elements), len(elements))
    number = GROUP_TYPES[group_type](np.arange(len(elements)), length, np.full(len(elements), limit))
    groups: list[list[_Element]] = [[] for _ in range(int(number[-1]) + 1)]
    for element, group in zip(elements, number.tolist(), strict=True):
        groups[group].append(element)
    return groups


def group_labels(
    parent: NDArray[np.int64], kind: NDArray[np.int64], fanout_cutoff: int, group_type: str = "orig"
) -> NDArray[np.int64]:
    """Group elements that have the same parent and the same kind.

    Args:
        parent: (elements,) number of the parent of each element.
        kind: (elements,) number of its kind, such as the rank of the entities it lies in; only one kind is in a group.
        fanout_cutoff: What is added to the root of the number of siblings, as in `size_limits`.
        group_type: A name in `GROUP_TYPES`.

    Returns:
        Array (elements,): number of the group, ordered by parent, then kind, then position of its elements.
    """
    order = np.lexsort((np.arange(parent.size), kind, parent))
    owner, sort = parent[order], kind[order]
    first = np.concatenate([[True], (owner[1:] != owner[:-1]) | (sort[1:] != sort[:-1])])
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, owner.size))
    run = np.cumsum(first) - 1
    limit = size_limits(np.bincount(owner), fanout_cutoff)[owner]
    chunk = GROUP_TYPES[group_type](np.arange(owner.size) - starts[run], lengths[run], limit)
    opens = first | np.concatenate([[True], chunk[1:] != chunk[:-1]])
    labels = np.empty(parent.size, dtype=np.int64)
    labels[order] = np.cumsum(opens) - 1
    return labels


def ranks(values: NDArray[np.str_]) -> NDArray[np.int64]:
    """Position (n,) of every text among the distinct ones, sorted as text.

    Args:
        values: (n,) text.
    """
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
