"""Experiments: methods over training sizes, on the same rows, with results that survive a crash.

Three nouns: a *protocol* says which cells there are and draws the rows of each; a *method* makes
a classifier of these rows, hyper-parameters included; a *data set* has the rows. :func:`run` puts
them together. The paper's experiments are ``lupi reproduce``.
"""

from ._answer import Answer, Difference, difference
from ._compare import Comparison, compare
from ._engine import Experiment, Journal, OtherRunError, paired, run, summary, write_csv
from ._methods import (
    SVM,
    AnnotatorWeights,
    EstimatorMethod,
    LearnedUnion,
    LearnedWeights,
    Method,
    Outcome,
    ProbabilityWeights,
    Replay,
    Shared,
    SVMBoth,
    SVMPlus,
    SVMValidation,
    Tuned,
    tuned,
)
from ._parts import DataSet, Drawing, FixedValidation, Parts, Split, generator, stratified

__all__ = [
    "SVM",
    "AnnotatorWeights",
    "Answer",
    "Comparison",
    "DataSet",
    "Difference",
    "Drawing",
    "EstimatorMethod",
    "Experiment",
    "FixedValidation",
    "Journal",
    "LearnedUnion",
    "LearnedWeights",
    "Method",
    "OtherRunError",
    "Outcome",
    "Parts",
    "ProbabilityWeights",
    "Replay",
    "SVMBoth",
    "SVMPlus",
    "SVMValidation",
    "Shared",
    "Split",
    "Tuned",
    "compare",
    "difference",
    "generator",
    "paired",
    "run",
    "stratified",
    "summary",
    "tuned",
    "write_csv",
]
