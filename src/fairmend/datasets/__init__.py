"""Small real tables inside the package, loaders for the raw ones, exact populations.

    load_adult, load_compas            the paper's binary tables, embedded: no download, no file
    load_adult_raw, load_compas_raw    the mixed-type originals, from a file of yours or OpenML
    example_one, toy_descent,
    joint_proxies                      the paper's synthetic populations, with exact probabilities

>>> from fairmend.datasets import load_compas
>>> load_compas()
Bunch('compas': 6,172 people x 17 features, 46 % of y is 1, race: non-white 4,069, white 2,103)
"""

from fairmend.datasets.bunch import Bunch
from fairmend.datasets.embedded import load_adult, load_compas
from fairmend.datasets.raw import load_adult_raw, load_compas_raw
from fairmend.datasets.synthetic import FinitePopulation, example_one, joint_proxies, toy_descent

__all__ = [
    "Bunch",
    "FinitePopulation",
    "example_one",
    "joint_proxies",
    "load_adult",
    "load_adult_raw",
    "load_compas",
    "load_compas_raw",
    "toy_descent",
]
