"""Private centres and scales of features of which nothing is known, wherever they lie.

- `parameters`: what a search may spend, and what it hands on.
- `search` and `descent`: the looks at noisy counts, each chosen by what those before it released;
  `state` is what is known between them.
- `octaves`, `cells`: reading noisy counts, which is post-processing.
"""

from hushcov.steps.location.parameters import Location, LocationParameters, Units
from hushcov.steps.location.search import find_location

__all__ = ["Location", "LocationParameters", "Units", "find_location"]
