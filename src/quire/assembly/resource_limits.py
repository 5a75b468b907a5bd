"""The limits of named resources in this process: its share of the settings."""

from collections.abc import Callable, Iterator, Mapping


class SharedLimits(Mapping[str, int]):
    """Each setting divided by the number of members that run tasks now, rounded down, and never less than
    one: a resource with fewer places than members gets as many orders as there are members. `count_members`
    is set by the engine, when it has joined.
    """

    def __init__(self, resources: Mapping[str, int], count_members: Callable[[], int] = lambda: 1) -> None:
        self._resources = resources
        self.count_members = count_members

    def __getitem__(self, resource: str) -> int:
        return max(1, self._resources[resource] // max(1, self.count_members()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)
