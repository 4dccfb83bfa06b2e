"""Measurements of each response besides its verdict: columns that targets, estimators, RL and reports read.

Each kind of evidence is one file with one `Evidence`, listed in `EVIDENCE`. `collect_evidence` measures the named columns
part by part; `read_evidence` reads them. Does not turn evidence into a confidence or a target.
"""

from calibsft.evidence.answer_votes import ANSWER_VOTES
from calibsft.evidence.cluster_share import CLUSTER_SHARE
from calibsft.evidence.evidence import Evidence
from calibsft.evidence.judge_score import JUDGE_SCORE
from calibsft.evidence.mean_logprob import MEAN_LOGPROB

__all__ = ["EVIDENCE", "Evidence"]

EVIDENCE: dict[str, Evidence] = {
    "mean-logprob": MEAN_LOGPROB,
    "answer-votes": ANSWER_VOTES,
    "cluster-share": CLUSTER_SHARE,
    "judge-score": JUDGE_SCORE,
}
