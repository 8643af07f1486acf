"""Experiments: methods over training sizes, on the same rows, with results that survive a crash.

Three nouns: a *protocol* says which cells there are and draws the rows of each; a *method* makes
a classifier of these rows, hyper-parameters included; a *data set* has the rows. :func:`run` puts
them together. The paper's experiments are ``lupi reproduce``.
"""

from ._answer import Answer, Difference, difference
from ._compare import Comparison, compare, compare_problem
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
from ._models import load_model, predict_table, require_skops, save_model
from ._parts import DataSet, Drawing, FixedValidation, Parts, Split, generator, stratified
from ._reproduce import FIGURES, Reproduction, reproduce
from ._table import Problem, demo_problem, make_problem, problem_of, read_table

__all__ = [
    "FIGURES",
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
    "Problem",
    "Replay",
    "Reproduction",
    "SVMBoth",
    "SVMPlus",
    "SVMValidation",
    "Shared",
    "Split",
    "Tuned",
    "compare",
    "compare_problem",
    "demo_problem",
    "difference",
    "generator",
    "load_model",
    "make_problem",
    "paired",
    "predict_table",
    "problem_of",
    "read_table",
    "reproduce",
    "require_skops",
    "run",
    "save_model",
    "stratified",
    "summary",
    "tuned",
    "write_csv",
]
