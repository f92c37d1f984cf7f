"""Search for less discriminatory alternatives to a model that cannot be retrained."""

from fairmend.search.find import alternatives
from fairmend.search.result import Alternative, Alternatives

__all__ = ["Alternative", "Alternatives", "alternatives"]
