"""Computes with SciPy and statsmodels what the tests of this folder compute in TypeScript: a JSON object of cases in, their values out."""
import json
import sys

import numpy as np
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint


def main():
    cases = json.load(sys.stdin)
    out = {
        "studentQuantile": [float(stats.t.ppf(p, df)) for p, df in cases["studentQuantile"]],
        "studentTwoSided": [float(2 * stats.t.sf(abs(t), df)) for t, df in cases["studentTwoSided"]],
        "normalQuantile": [float(stats.norm.ppf(p)) for p in cases["normalQuantile"]],
        "fairBinomialCdf": [float(stats.binom.cdf(k, n, 0.5)) for k, n in cases["fairBinomialCdf"]],
        "wilson": [list(map(float, proportion_confint(c, n, 1 - confidence, "wilson"))) for c, n, confidence in cases["shares"]],
        "clopperPearson": [list(map(float, proportion_confint(c, n, 1 - confidence, "beta"))) for c, n, confidence in cases["shares"]],
        "oneSample": [list(map(float, stats.ttest_1samp(d, 0).confidence_interval(0.95))) for d in cases["samples"]],
        "pairedP": [float(stats.ttest_rel(a, b).pvalue) for a, b in cases["pairs"]],
        "pairedInterval": [list(map(float, stats.ttest_rel(a, b).confidence_interval(0.95))) for a, b in cases["pairs"]],
        "signFlip": [float(permutation(a, b)) for a, b in cases["smallPairs"]],
        "mcNemar": [float(mcnemar([[5, b], [c, 5]], exact=True).pvalue) for b, c in cases["mcNemar"]],
        "holm": [list(map(float, multipletests(p, method="holm")[1])) for p in cases["holm"]],
        "quantiles": [[float(np.quantile(d, q)) for q in (0.1, 0.5, 0.9, 0.99)] for d in cases["samples"]],
        "passAtK": [pass_at_k(n, c, k) for n, c, k in cases["passAtK"]],
    }
    json.dump(out, sys.stdout)


def permutation(a, b):
    """Sign flips: a permutation of the two sides within each pair."""
    statistic = lambda x, y: np.sum(x - y)
    result = stats.permutation_test((np.array(a), np.array(b)), statistic, permutation_type="samples", n_resamples=np.inf, alternative="two-sided")
    return result.pvalue


def pass_at_k(n, c, k):
    """The code of the HumanEval paper (Chen et al. 2021, figure 3)."""
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


main()
