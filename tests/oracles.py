"""Every loss as its paper writes it: plain loops over Python floats, one function per loss, named after it.

An oracle takes the views as float64 arrays, `negatives` and the loss's settings, and gives one value per query
(view-major) or, where the loss has none, one number. It shares no code with the package.
`SETTINGS` lists further settings to compare besides the defaults.
"""

import math
from itertools import combinations

import numpy as np

from isotherm import temperature as T

SETTINGS = {
    "NTXentLoss": [
        {"temperature": 0.05},
        {"temperature": T.Cosine(0.07, 0.2)},
        {"temperature": T.Linear(0.1, 0.3)},
        {"temperature": T.Shifted(0.05, 0.2, 0.3, 0.8)},
    ],
    "InfoNCELoss": [{"symmetric": False}, {"temperature": T.Monotone(0.05, 0.07)}],
    "SimpleContrastiveLoss": [{"weight": 0.3}],
    "HardContrastiveLoss": [{"alpha": 0.5}, {"top_k": 3, "temperature": T.Cosine(0.07, 0.2)}, {"alpha": 1.0}],
    "HardSimpleLoss": [{"alpha": 0.5, "weight": 0.2}, {"top_k": 4}],
    "DecoupledNTXentLoss": [{"temperature": 0.2, "weight": 0.5}],
    "DCLLoss": [{"temperature": T.Exponential(0.1, 0.2)}],
    "DCLWLoss": [{"temperature": 0.2, "sigma": 0.3}],
    "HardNegativeLoss": [{"beta": 0.0}, {"tau_plus": 0.0, "temperature": 0.2}, {"beta": 2.0, "tau_plus": 0.6}],
    "MACLLoss": [{"alpha": 2.0, "threshold": -0.1}],
    "DySTreSSLoss": [
        {"profile": "linear"},
        {"profile": "exponential", "tau_min": 0.1},
        {"profile": "monotone"},
        {"shift": -0.4, "scale": 0.7, "tau_min": 0.03, "tau_max": 0.05},
        {"profile": "shifted"},
        {"profile": "left-half", "tau_min": 0.07, "tau_max": 0.1},
        {"detach": False},
    ],
    "FNCLoss": [
        {"cancel": "eliminate"},
        {"cancel": "eliminate", "top_k": 2, "threshold": None, "aggregate": "mean"},
        {"cancel": "eliminate", "top_k": 100, "threshold": None},
        {"top_k": 3, "threshold": None, "temperature": 0.5},
        {"top_k": None, "threshold": 0.2, "aggregate": "mean"},
        {"temperature": T.Cosine(0.07, 0.2), "threshold": -0.5},
    ],
    "AlignUniformLoss": [{"alpha": 1.0, "t": 3.0, "weight": 0.5}],
    "GeneralizedContrastiveLoss": [
        {"distribution": "lse", "weight": 0.1, "temperature": 0.5},
        {"distribution": "lse", "include_self": True, "scale": 1.0},
        {"prior": "hypercube"},
        {"prior": "normal", "weight": 2.0, "scale": 3.0},
    ],
    "CACRLoss": [
        {"t_pos": 2.0, "t_neg": 0.9, "cost": "inner"},
        {"cost": "rbf"},
        {"attraction": "uniform", "t_neg": -1.0},
        {"repulsion": "uniform"},
        {"repulsion": "uniform", "cost": "rbf"},
        {"margin": -0.4},
        {"detach_weights": True},
        {"negatives_from": "other", "t_neg": 0.9},
    ],
    "UAURLoss": [{"cost": "inner"}],
    "CMCLoss": [{"temperature": 0.3}],
    "SupConLoss": [{"temperature": T.Cosine(0.07, 0.2)}],
    "BarlowTwinsLoss": [{"weight": 0.1}],
    "VICRegLoss": [{"invariance": 1.0, "variance": 2.0, "covariance": 3.0}],
    "WMSELoss": [{"eps": 0.0}, {"eps": 0.3, "iterations": 3}],
    "ZeroCLLoss": [{"eps": 0.3}, {"detach": False}],
    "ZeroICLLoss": [{"eps": 1e-3}, {"detach": False}],
    "ZeroFCLLoss": [{"eps": 1e-3}, {"detach": False}],
    "ARBLoss": [{"eps": 0.1}],
    "SigLIPLoss": [
        {"temperature": 0.05, "bias": -3.0, "learnable": False},
        {"temperature": T.Cosine(0.07, 0.2), "bias": 1.5},
        {"temperature": 0.01, "bias": 0.0},
    ],
}


# --- temperatures -------------------------------------------------------------------------------


def cosine(s, low, high):
    return low + 0.5 * (high - low) * (1 + math.cos(math.pi * (1 + s)))


def linear(s, low, high):
    return low + (high - low) * abs(s)


def exponential(s, low, high, rate=3.5):
    return high - (high - low) * math.exp(-rate * abs(s))


def monotone(s, low, high):
    return low + 0.5 * (high - low) * (1 - math.cos(math.pi * (1 + s) / 2))


def shifted(s, low, high, shift, scale):
    if (shift <= 0 and s <= -shift) or (shift >= 0 and s >= -shift):
        return low + (high - low) / 2 * (1 + math.cos(math.pi / scale * (shift + s)))
    return high


def left_half(s, low, high):
    return low + (high - low) / 2 * (1 + math.cos(math.pi / 0.5 * s)) if s <= 0 else high


def tau(temperature, s):
    """The temperature at similarity s."""
    match temperature:
        case T.Cosine():
            return cosine(s, temperature.tau_min, temperature.tau_max)
        case T.Linear():
            return linear(s, temperature.tau_min, temperature.tau_max)
        case T.Exponential():
            return exponential(s, temperature.tau_min, temperature.tau_max, temperature.rate)
        case T.LeftHalf():
            return left_half(s, temperature.tau_min, temperature.tau_max)
        case T.Monotone():
            return monotone(s, temperature.tau_min, temperature.tau_max)
        case T.Shifted():
            return shifted(s, temperature.tau_min, temperature.tau_max, temperature.shift, temperature.scale)
        case _ if callable(temperature):
            return temperature(s)
    return temperature


# --- who is compared ----------------------------------------------------------------------------


def unit(z):
    return np.stack([row / math.sqrt(sum(x * x for x in row)) for row in z])


def dot(a, b):
    return float(sum(x * y for x, y in zip(a, b, strict=True)))


def queue_rows(views, negatives):
    z, queue = [unit(v) for v in views], unit(negatives)
    return [
        ([dot(z[0][i], z[b][i]) for b in range(1, len(z))], [dot(z[0][i], m) for m in queue]) for i in range(len(z[0]))
    ]


def rows_of(views, negatives, rivals):
    """(positives, negatives) of every query; `rivals` names the views whose other items are its negatives."""
    if negatives is not None:
        return queue_rows(views, negatives)
    z = [unit(v) for v in views]
    count, n = len(z), len(z[0])
    return [
        (
            [dot(z[a][i], z[b][i]) for b in range(count) if b != a],
            [dot(z[a][i], z[b][j]) for b in rivals(a, count) for j in range(n) if j != i],
        )
        for a in range(count)
        for i in range(n)
    ]


def in_batch(views, negatives=None):
    """(positives, negatives) of every query: all views of all other items."""
    return rows_of(views, negatives, lambda view, count: range(count))


def query_view(views, negatives=None):
    """(positives, negatives) of every query: the other items of its own view."""
    return rows_of(views, negatives, lambda view, count: [view])


def cross_view(views, query):
    """For query view a: one list of (positives, negatives) rows for each other view."""
    z = [unit(v) for v in views]
    n = len(z[0])
    return [
        [([dot(z[query][i], z[b][i])], [dot(z[query][i], z[b][j]) for j in range(n) if j != i]) for i in range(n)]
        for b in range(len(z))
        if b != query
    ]


# --- softmax family -----------------------------------------------------------------------------


def nt_xent(positives, negatives, temperature):
    candidates = [math.exp(s / tau(temperature, s)) for s in positives + negatives]
    terms = [-math.log(math.exp(p / tau(temperature, p)) / sum(candidates)) for p in positives]
    return sum(terms) / len(terms)


def NTXentLoss(views, negatives=None, temperature=0.2):
    return [nt_xent(p, n, temperature) for p, n in in_batch(views, negatives)]


def InfoNCELoss(views, negatives=None, temperature=0.2, symmetric=True):
    if negatives is not None:
        return [nt_xent(p, n, temperature) for p, n in queue_rows(views, negatives)]
    values = []
    for a in range(len(views) if symmetric else 1):
        blocks = [[nt_xent(p, n, temperature) for p, n in rows] for rows in cross_view(views, a)]
        values += [sum(parts) / len(parts) for parts in zip(*blocks, strict=True)]
    return values


def CMCLoss(views, negatives=None, temperature=0.07):
    return InfoNCELoss(views, negatives, temperature)


def DySTreSSLoss(views, negatives=None, tau_min=0.07, tau_max=0.2, profile="cosine", shift=0.0, scale=1.0, detach=True):
    if profile == "shifted" or shift != 0:
        function = lambda s: shifted(s, tau_min, tau_max, shift, scale)  # noqa: E731
    else:
        shapes = {"cosine": cosine, "linear": linear, "exponential": exponential, "monotone": monotone}
        shape = {**shapes, "left-half": left_half}[profile]
        function = lambda s: shape(s, tau_min, tau_max)  # noqa: E731
    return [nt_xent(p, n, function) for p, n in in_batch(views, negatives)]


def FNCLoss(
    views,
    negatives=None,
    temperature=0.1,
    cancel="attract",
    support=None,
    top_k=10,
    threshold=0.7,
    aggregate="max",
):
    z = [unit(v) for v in views]
    looking = z if support is None else z[: 2 + support]
    values = []
    for a in range(1 if negatives is not None else len(z)):
        for i in range(len(z[0])):
            others = [z[b][j] for b in range(len(z)) for j in range(len(z[0])) if j != i]
            others = list(unit(negatives)) if negatives is not None else others
            scores = []
            for other in others:
                seen = [dot(other, view[i]) for view in looking]
                scores.append(max(seen) if aggregate == "max" else sum(seen) / len(seen))
            ranked = sorted(range(len(others)), key=lambda k, scores=scores: -scores[k])
            false = [k for k in ranked[:top_k] if threshold is None or scores[k] > threshold]
            e = lambda s: math.exp(s / tau(temperature, s))  # noqa: E731
            positives = [dot(z[a][i], z[b][i]) for b in range(len(z)) if b != a]
            s = [dot(z[a][i], other) for other in others]
            if cancel == "eliminate":
                if len(false) == len(others):
                    false = false[:-1]
                below = sum(map(e, positives)) + sum(e(s[k]) for k in range(len(s)) if k not in false)
                near = positives
            else:
                below = sum(map(e, positives)) + sum(map(e, s))
                near = positives + [s[k] for k in false]
            values.append(-sum(math.log(e(x) / below) for x in near) / len(near))
    return values


def MACLLoss(views, negatives=None, temperature=0.1, alpha=0.5, threshold=0.0):
    rows = in_batch(views, negatives)
    alignment = np.mean([np.mean(p) for p, _ in rows])
    t = temperature * (1 + alpha * (alignment - threshold))
    values = []
    for positives, others in rows:
        total = sum(math.exp(s / t) for s in positives + others)
        terms = []
        for p in positives:
            probability = math.exp(p / t) / total
            terms.append(-math.log(probability) / (1 - probability))
        values.append(sum(terms) / len(terms))
    return values


def SupConLoss(views, labels, temperature=0.1):
    z = unit(views[0])
    values = []
    for i in range(len(z)):
        s = {j: dot(z[i], z[j]) for j in range(len(z)) if j != i}
        total = sum(math.exp(x / tau(temperature, x)) for x in s.values())
        terms = [-math.log(math.exp(s[j] / tau(temperature, s[j])) / total) for j in s if labels[j] == labels[i]]
        values.append(sum(terms) / len(terms))
    return values


def DecoupledNTXentLoss(views, negatives=None, temperature=1.0, weight=0.1):
    return [
        -sum(p) / len(p) + weight * math.log(sum(math.exp(s / tau(temperature, s)) for s in p + n))
        for p, n in in_batch(views, negatives)
    ]


def DCLLoss(views, negatives=None, temperature=0.1):
    return [
        sum(-s / tau(temperature, s) for s in p) / len(p) + math.log(sum(math.exp(s / tau(temperature, s)) for s in n))
        for p, n in in_batch(views, negatives)
    ]


def DCLWLoss(views, negatives=None, temperature=0.1, sigma=0.5):
    rows = in_batch(views, negatives)
    mean = np.mean([math.exp(s / sigma) for p, _ in rows for s in p])
    values = []
    for positives, others in rows:
        pull = [(2 - math.exp(s / sigma) / mean) * s / temperature for s in positives]
        values.append(-sum(pull) / len(pull) + math.log(sum(math.exp(s / temperature) for s in others)))
    return values


def HardNegativeLoss(views, negatives=None, temperature=0.5, beta=1.0, tau_plus=0.1):
    values = []
    for positives, others in in_batch(views, negatives):
        m = len(others)
        weights = [math.exp(beta * s / temperature) for s in others]
        r = sum(w * math.exp(s / temperature) for w, s in zip(weights, others, strict=True)) / (sum(weights) / m)
        exps = [math.exp(p / temperature) for p in positives]
        terms = []
        for k, e in enumerate(exps):
            ng = max((r - tau_plus * m * e) / (1 - tau_plus), m * math.exp(-1 / temperature))
            terms.append(-math.log(e / (e + ng + sum(exps[:k] + exps[k + 1 :]))))
        values.append(sum(terms) / len(terms))
    return values


def SigLIPLoss(views, negatives=None, temperature=0.1, bias=-10.0, learnable=True):
    def answer(positives, others):
        yes = [math.log1p(math.exp(-(s / tau(temperature, s) + bias))) for s in positives]
        return sum(yes) + sum(math.log1p(math.exp(s / tau(temperature, s) + bias)) for s in others)

    if negatives is not None:
        return [answer(p, n) for p, n in queue_rows(views, negatives)]
    values = []
    for a in range(len(views)):
        blocks = [[answer(p, n) for p, n in rows] for rows in cross_view(views, a)]
        values += [sum(parts) / len(parts) for parts in zip(*blocks, strict=True)]
    return values


# --- linear and hard ----------------------------------------------------------------------------


def nearest(negatives, alpha, top_k):
    k = top_k or math.ceil(round(alpha * len(negatives), 9))
    threshold = sorted(negatives, reverse=True)[k - 1]
    return [s for s in negatives if s >= threshold]


def SimpleContrastiveLoss(views, negatives=None, weight=None):
    return [
        -sum(p) / len(p) + (1 / len(n) if weight is None else weight) * sum(n) for p, n in in_batch(views, negatives)
    ]


def HardContrastiveLoss(views, negatives=None, temperature=0.3, alpha=0.0819, top_k=None):
    return [nt_xent(p, nearest(n, alpha, top_k), temperature) for p, n in in_batch(views, negatives)]


def HardSimpleLoss(views, negatives=None, alpha=0.0819, top_k=None, weight=None):
    values = []
    for positives, others in in_batch(views, negatives):
        near = nearest(others, alpha, top_k)
        values.append(-sum(positives) / len(positives) + (weight or 1 / len(near)) * sum(near))
    return values


def TripletLimitLoss(views, negatives=None):
    return [sum(max(max(n) - s, 0) for s in p) / len(p) for p, n in in_batch(views, negatives)]


# --- attraction and repulsion -------------------------------------------------------------------


def softmax(x):
    e = [math.exp(v - max(x)) for v in x]
    return [v / sum(e) for v in e]


def CACRLoss(
    views,
    negatives=None,
    t_pos=1.0,
    t_neg=2.0,
    cost="euclidean",
    attraction="contrastive",
    repulsion="contrastive",
    detach_weights=False,
    margin=None,
    negatives_from="own",
):
    price = (lambda s: -s) if cost == "inner" else (lambda s: 2 - 2 * s)
    attract, repel, kernel = [], [], []
    if negatives_from == "other" and negatives is None:
        answers = [cross_view(views, a) for a in range(len(views))]  # by other view, then by item
        items = range(len(views[0]))
        rows = [
            ([s for b in answer for s in b[i][0]], [s for b in answer for s in b[i][1]])
            for answer in answers
            for i in items
        ]
    else:
        rows = query_view(views, negatives)
    for positives, others in rows:
        w = softmax([t_pos * (2 - 2 * s) for s in positives])
        v = softmax([-t_neg * (2 - 2 * s) for s in others])
        if attraction == "uniform":
            w = [1 / len(positives)] * len(positives)
        if repulsion == "uniform":
            v = [1 / len(others)] * len(others)
        attract.append(sum(a * price(s) for a, s in zip(w, positives, strict=True)))
        repel.append(sum(a * price(s) for a, s in zip(v, others, strict=True)))
        kernel.append(sum(a * math.exp(-2 * (2 - 2 * s)) for a, s in zip(v, others, strict=True)))
    if cost == "rbf":
        n = len(views[0])
        blocks = range(0, len(attract), n)
        return np.mean([np.mean(attract[i : i + n]) + math.log(np.mean(kernel[i : i + n])) for i in blocks])
    values = [a - r for a, r in zip(attract, repel, strict=True)]
    return values if margin is None else [max(v + margin, 0) for v in values]


def UAURLoss(views, negatives=None, cost="euclidean"):
    return CACRLoss(views, negatives, cost=cost, attraction="uniform", repulsion="uniform")


# --- alignment and distribution -----------------------------------------------------------------


def AlignUniformLoss(views, negatives=None, alpha=2.0, t=2.0, weight=1.0):
    rows, n = query_view(views, negatives), len(views[0])
    terms = []
    for start in range(0, len(rows), n):
        block = rows[start : start + n]
        align = np.mean([max(2 - 2 * s, 0) ** (alpha / 2) for p, _ in block for s in p])
        uniform = math.log(np.mean([math.exp(-t * (2 - 2 * s)) for _, m in block for s in m]))
        terms.append(align + weight * uniform)
    return np.mean(terms)


def GeneralizedContrastiveLoss(
    views,
    negatives=None,
    distribution="swd",
    prior="hypersphere",
    weight=5.0,
    temperature=1.0,
    scale=None,
    include_self=False,
    draws=None,
):
    """`draws` are the loss's own random numbers, (basis, sample): what it drew is not what is tested."""
    gamma = (1000 if prior == "hypersphere" else 1) if scale is None else scale
    if distribution == "lse":
        values = []
        for positives, others in in_batch(views, negatives):
            total = sum(math.exp(s / temperature) for s in positives + others + [1.0] * include_self)
            align = np.mean([2 - 2 * s for s in positives]) / views[0].shape[1]
            values.append(gamma * (align + weight * math.log(total)))
        return values
    z = [unit(v) for v in views] if prior == "hypersphere" else views
    align = np.mean([np.mean((a - b) ** 2) for a, b in combinations(z, 2)])
    basis, sample = draws
    everything = np.concatenate(z)
    total = 0.0
    for j in range(basis.shape[1]):
        ours = sorted(dot(row, basis[:, j]) for row in everything)
        theirs = sorted(dot(row, basis[:, j]) for row in sample)
        total += sum((x - y) ** 2 for x, y in zip(ours, theirs, strict=True))
    return gamma * (align + weight * total / everything.size)


# --- no negatives -------------------------------------------------------------------------------


def BYOLLoss(views):
    z = [unit(v) for v in views]
    return [
        np.mean([sum((x - y) ** 2 for x, y in zip(z[0][i], t[i], strict=True)) for t in z[1:]])
        for i in range(len(z[0]))
    ]


def SimSiamLoss(views):
    z = [unit(v) for v in views]
    return [-np.mean([dot(z[0][i], t[i]) for t in z[1:]]) for i in range(len(z[0]))]


def BarlowTwinsLoss(views, weight=0.005):
    def correlation(a, b, i, j):
        x, y = a[:, i] - a[:, i].mean(), b[:, j] - b[:, j].mean()
        return np.mean(x * y) / math.sqrt((np.mean(x * x) + 1e-5) * (np.mean(y * y) + 1e-5))

    d = views[0].shape[1]
    terms = []
    for a, b in combinations(views, 2):
        on = sum((1 - correlation(a, b, i, i)) ** 2 for i in range(d))
        off = sum(correlation(a, b, i, j) ** 2 for i in range(d) for j in range(d) if i != j)
        terms.append(on + weight * off)
    return np.mean(terms)


def VICRegLoss(views, invariance=25.0, variance=25.0, covariance=1.0):
    d = views[0].shape[1]
    apart = np.mean([np.mean((a - b) ** 2) for a, b in combinations(views, 2)])
    flat = [np.mean([max(0, 1 - math.sqrt(np.var(z[:, j], ddof=1) + 1e-4)) for j in range(d)]) for z in views]
    mixed = [sum(np.cov(z[:, i], z[:, j])[0, 1] ** 2 for i in range(d) for j in range(d) if i != j) / d for z in views]
    return invariance * apart + variance * np.mean(flat) + covariance * 2 * np.mean(mixed)


# --- whitened -----------------------------------------------------------------------------------


def cholesky(a):
    """The lower factor of a symmetric matrix, entry by entry."""
    factor = np.zeros_like(a)
    for i in range(len(a)):
        for j in range(i + 1):
            rest = a[i, j] - sum(factor[i, k] * factor[j, k] for k in range(j))
            factor[i, j] = math.sqrt(rest) if i == j else rest / factor[j, j]
    return factor


def whitened(rows, eps):
    """W-MSE's eq. 3: mean 0 and, but for eps, covariance I; forward substitution with the Cholesky factor."""
    m, d = rows.shape
    centred = rows - sum(rows) / m
    covariance = sum(np.outer(row, row) for row in centred) / (m - 1)
    factor = cholesky((1 - eps) * covariance + eps * np.eye(d))
    result = np.zeros_like(centred)
    for row, out in zip(centred, result, strict=True):
        for j in range(d):
            out[j] = (row[j] - sum(factor[j, k] * out[k] for k in range(j))) / factor[j, j]
    return result


def WMSELoss(views, size=None, iterations=1, eps=1e-4, subsets=None):
    """`subsets` are the loss's own draws, the items of each sub-batch: what it drew is not what is tested."""
    total = count = 0
    for items in [range(len(views[0]))] if subsets is None else subsets:
        z = [unit(whitened(v[list(items)], eps)) for v in views]
        pairs = list(combinations(z, 2))
        total += sum(
            sum((x - y) ** 2 for x, y in zip(a[i], b[i], strict=True)) for a, b in pairs for i in range(len(a))
        )
        count += len(items) * len(pairs)
    return total / count


def standardized_rows(x):
    return np.stack([(row - np.mean(row)) / math.sqrt(np.mean((row - np.mean(row)) ** 2) + 1e-5) for row in x])


def inverse_root(x, eps):
    """(x xᵀ/m + ε)^(−1/2), by eigenvectors."""
    k, m = x.shape
    gram = np.array([[dot(x[i], x[j]) / m for j in range(k)] for i in range(k)])
    values, vectors = np.linalg.eigh(gram)
    return sum(np.outer(v, v) / math.sqrt(value + eps) for value, v in zip(values, vectors.T, strict=True))


def decorrelation(views, held, eps):
    """Σ (1 − correlation)² of the rows of whitened views; the matrices are those of `held`."""
    matrices = [inverse_root(standardized_rows(v), eps) for v in held]
    h = [matrix @ standardized_rows(v) for matrix, v in zip(matrices, views, strict=True)]
    terms = [sum((1 - np.mean(x * y)) ** 2 for x, y in zip(a, b, strict=True)) for a, b in combinations(h, 2)]
    return np.mean(terms)


def ZeroICLLoss(views, eps=0.01, detach=True, held=None):
    """`held` are the views that the whitening matrices are of, if not the same."""
    return decorrelation(views, views if held is None else held, eps)


def ZeroFCLLoss(views, eps=0.01, detach=True, held=None):
    held = views if held is None else held
    return decorrelation([v.T for v in views], [v.T for v in held], eps)


def ZeroCLLoss(views, eps=0.01, detach=True, held=None):
    return ZeroICLLoss(views, eps, held=held) + ZeroFCLLoss(views, eps, held=held)


def ARBLoss(views, eps=1e-5, held=None):
    held = [standardized_rows(v.T) for v in (views if held is None else held)]
    bases = [inverse_root(x, eps) @ x for x in held]
    z = [standardized_rows(v.T) for v in views]
    terms = []
    for a, b in combinations(range(len(z)), 2):
        forth = sum((1 - np.mean(x * o)) ** 2 for x, o in zip(z[a], bases[b], strict=True))
        back = sum((1 - np.mean(x * o)) ** 2 for x, o in zip(z[b], bases[a], strict=True))
        terms.append(forth + back)
    return np.mean(terms)
