"""Tables of made-up outcomes for every check: one in which all claims hold, one in which none."""

from paper import Table
from paper.match_ranks import RANK_COLUMNS
from paper.quality_curves import RUN_COLUMNS

RATIOS = (0.11, 0.2, 0.3, 0.4, 0.6, 0.8, 1.1)
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)


def curves(heights, *, data="Holidays", runs=2, more=(), columns=("largest unit",), whole=None):
    """Curves that stay at a height until everything is searched; heights by variant."""
    rows = []
    for number in range(runs):
        for variant, height in heights.items():
            for ratio in RATIOS:
                baseline = 1.0 if whole is None else whole[variant]
                share = 1.0 if ratio > 1 else height + 1e-4 * number
                rows.append((data, variant, ratio, share * baseline, baseline, number, *more))
    return Table("t", (*RUN_COLUMNS, *columns[: len(more)]), tuple(rows))


def joined(*tables):
    return Table("t", tables[0].columns, tuple(row for table in tables for row in table.rows))


def fig01(good):
    rows = []
    for place, level in enumerate(LEVELS):
        best = place if good else 4 - place
        for name, least in (("sum", 0.08), ("pinv", 0.05 if good else 0.5)):
            for step, size in enumerate((10, 20, 30, 40, 50)):
                rows.append(("theory", name, level, size, least + abs(step - best), 0, 0))
            line = rows[-5][4]
            dot, missed = (line, 0.01) if good else (2 * line, 0.2)
            rows.append(("simulated", name, level, 10, dot, 0.001, missed))
    columns = ("kind", "construction", "similarity", "unit_size", "cost", "error", "missed")
    return Table("t", columns, tuple(rows))


def fig02(good):
    rows = []
    sign = 1 if good else -1
    for data, levels in (("uniform", (0.3, 0.5, 0.7, 0.9)), ("WordNet", (0.5, 0.6, 0.7, 0.8))):
        for level in levels:
            for name in ("sum", "pinv"):
                area = 0.7 + sign * (0.1 * level + 0.05 * (name == "pinv"))
                seen = "simulated" if data == "uniform" else "measured"
                off = 0.0 if good else 0.1
                line = area + (0.1 * good if data != "uniform" else 0) - off
                for rate in (0.01, 0.1, 1.0):
                    rows.append((data, "theory", name, level, rate, rate, line, 0))
                    for run in (0, 1):
                        shown = area + 1e-5 * run
                        rows.append((data, seen, name, level, rate, rate, shown, run))
    columns = ("data", "kind", "construction", "similarity", "false", "true", "area", "run")
    return Table("t", columns, tuple(rows))


def fig03(good):
    rows = []
    gaps = {0.1: 0.5, 0.2: 0.2, 0.3: 0.01} if good else {0.1: 0.1, 0.2: 0.2, 0.3: 0.5}
    for level in LEVELS:
        for name in ("sum", "pinv"):
            for size in (2, 100, 997):
                best = 0.2 if good else 0.001
                cost = best + (size != 2) if good else best + (size == 2)
                rows.append(("unit size", "random", name, level, -1.0, size, cost, 0, 0))
            for cap, gap in gaps.items():
                for kind in ("printed", "exact"):
                    for size in (2, 100, 997):
                        cost = (0.1 - 0.2 * cap) * (1 + gap * (name == "sum"))
                        cost += (size == 2) if good else (size != 2)
                        facts = ("unit size", kind, name, level, cap, size)
                        rows.append((*facts, cost, 0, 0))
                dot, missed = (cost, 0.01) if good else (2 * cost, 0.3)
                facts = ("unit size", "simulated", name, level, cap, 997)
                rows.append((*facts, dot, 0.001, missed))
    for name in ("sum", "pinv"):
        for dim in (50, 100):
            cost = 1 / dim if good else dim
            rows.append(("dimension", "theory", name, 0.7, -1.0, dim, cost, 0, 0))
    names = ("panel", "kind", "construction", "similarity", "cap", "x", "cost", "error", "missed")
    return Table("t", names, tuple(rows))


def ranks(good):
    first = {"random": 0.5 if good else 0.9}
    later = {"random": 0.4}
    matches = {"random": 1.0}
    for name in ("k-means sum", "k-means pinv"):
        first[name], later[name], matches[name] = (0.9, 0.0, 3.0) if good else (0.3, 0.3, 1.0)
    rows = []
    for name, height in first.items():
        for rank in range(1, 21):
            shown = height if rank <= 10 else later[name]
            facts = (1.0 if good else 2.0, 1.0, 0.01)
            rows.append(("Holidays", name, rank, shown, 0.01, matches[name], 0.1, *facts))
    return Table("t", RANK_COLUMNS, tuple(rows))


def tab01(good):
    low, high = (1.5, 2.5) if good else (2.5, 1.5)
    values = {"sum": high, "sum+norm": high, "pinv": low, "pinv+norm": low}
    columns = ("data", "rule", "rounds", "imbalance", "deviation", "runs", "largest unit")
    rows = [("Holidays", rule, 10, value, 0.1, 5, 0.9) for rule, value in values.items()]
    return Table("t", columns, tuple(rows))


def fig06(good):
    columns = ("data", "variant", "compared", "units visited", "ratio", "run", "largest unit")
    rows = []
    spreads = {"k-means pinv": 0.01, "k-means sum": 0.05}
    if not good:
        spreads = {"k-means pinv": 0.05, "k-means sum": 0.01}
    for name in (*spreads, "k-means sum, normalised"):
        wide = spreads.get(name, 0.01)
        for compared in ("same mean cost", "same number of units"):
            mean = 0.2 if good or compared == "same mean cost" or "pinv" in name else 0.5
            for run in (0, 1):
                for sign in (-1, 1):
                    rows.append(("Holidays", name, compared, 7, mean + sign * wide, run, 0.1))
    return Table("t", columns, tuple(rows))


def fig07(good):
    low, high = (0.3, 0.97) if good else (0.97, 0.3)
    names = ("k-means sum", "k-means pinv", "k-means sum, normalised")
    heights = {"random sum": low, "random pinv": low, **dict.fromkeys(names, high)}
    return curves(heights, more=(0.01,))


def fig08(good):
    few = {"random, M = N/50": 0.4, "k-means, M = N/50": 0.95}
    if not good:
        few = {"random, M = N/50": 0.95, "k-means, M = N/50": 0.4}
    return curves({"random, M = N/10": 0.5, "k-means, M = N/10": 0.99, **few}, more=(0.01,))


def fig09(good):
    heights = {"d = 1920": 0.999, "d = 1024": 0.999 if good else 0.5}
    whole = {"d = 1920": 1.0, "d = 1024": 0.98 if good else 0.5}
    return curves(heights, whole=whole, more=(0.01,))


def fig10(good):
    return curves({"random pinv": 0.5, "k-means pinv": 0.995 if good else 0.5}, more=(0.01,))


def codes(good):
    return curves({"sum": 0.996 if good else 0.5, "pinv": 0.992 if good else 0.9})


def power(good):
    gaps = {"": 0.1, ", power law": 0.0, ", PCA and power law": 0.0}
    if not good:
        gaps = {"": 0.0, ", power law": 0.1, ", PCA and power law": 0.1}
    heights = {}
    for kind, gap in gaps.items():
        heights |= {f"sum{kind}": 0.5, f"pinv{kind}": 0.5 + gap}
    return curves(heights, more=(0.01, 0.03), columns=("largest unit", "cosine"))


def flann(good):
    columns = ("data", "method", "neighbours found", "complexity ratio", "effective dimension")
    ratios = (0.8, 0.3, 0.4) if good else (0.2, 0.3, 0.4)
    rows = [("Holidays+Flickr1M", str(place), 0.95, x, 900.0) for place, x in enumerate(ratios)]
    return Table("t", columns, tuple(rows))


def times(good):
    columns = ("method", "times faster", "paper times", "found", "cost", "load of a core")
    wanted = {"exhaustive": 1.0, "memory vectors": 5.0, "symmetric codes": 105.0}
    rows = [(name, x if good else 0.7 * x, x, 1.0, 0.2, 0.5) for name, x in wanted.items()]
    return Table("t", columns, tuple(rows))


def fig13(good):
    tables = []
    for place, size in enumerate((10, 50, 500)):
        height = 0.97 - 0.2 * place if good else 0.3 + 0.2 * place
        heights = {"sum": height - (0.1 if good else -0.1), "pinv": height}
        tables.append(curves(heights, data=f"Holidays+Flickr1M, n = {size}"))
    return joined(*tables)


def fig14(good):
    heights = (0.5, 0.8, 0.9, 0.95) if good else (0.95, 0.9, 0.8, 0.5)
    names = ("random", "batches of N/100", "batches of N/10", "full")
    table = curves(dict(zip(names, heights, strict=True)), more=(0.01,))
    if good:
        return table
    rows = tuple((*row[:3], row[3] - 0.3 * row[5], *row[4:]) for row in table.rows)
    return Table("t", table.columns, rows)


def fig15(good):
    tables = []
    for name, height, factor in (
        ("batch spherical k-means", 0.9 if good else 0.5, 2.0),
        ("mbk", 0.7, 180.0 if good else 2.0),
        ("mbk with pinv", 0.7, 180.0),
    ):
        made = curves({name: height}, more=(factor,), columns=("imbalance",))
        tables.append(made)
    return joined(*tables)


def fig16(good):
    rows = []
    for name in ("batch spherical k-means", "mbk"):
        ours = name.startswith("batch") == good
        mean, wide = (0.17, 0.01) if ours else (0.26, 0.1)
        rows += [("d", name, mean + sign * wide, run) for run in (0, 1) for sign in (-1, 1)]
    return Table("t", ("data", "variant", "ratio", "run"), tuple(rows))


def fig17(good):
    names = ("stream", "variant", "ratio", "found", "queries", "asked", "matches", "vectors", "dim")
    columns = (*names, "batches", "largest sum unit", "batch seconds")
    ratios = {"random pinv": 0.12, "k-means pinv": 0.11, "k-means sum": 0.2}
    if not good:
        ratios = {"random pinv": 0.4, "k-means pinv": 0.4, "k-means sum": 0.2}
    rows = [
        ("Yahoo100M", name, point, found, 112, 1000, 11.4, 10**6, 1024, 10, 0.01, 1.0)
        for name, ratio in ratios.items()
        for point, found in ((0.1, 0.5), (ratio, 1.0))
    ]
    return Table("t", columns, tuple(rows))


def caps(construction):
    def table(good):
        errors = ("mean_error", "null_error", "match_error", "kl_error")
        quantities = ("match_mean", "null_variance", "match_variance", "kl")
        rows = []
        for place, eta in enumerate((-0.5, 0.0, 0.5)):
            up, down = (place + 1.0, 3.0 - place) if good else (3.0 - place, place + 1.0)
            values = (up, up, down, up) if construction == "sum" else (0.5, down, down, up)
            rows.append(("theory", eta, *values, 0, 0, 0, 0))
            seen = values if good else [2 * value for value in values]
            rows.append(("simulated", eta, *seen, 1e-3, 1e-3, 1e-3, 1e-3))
        return Table("t", ("kind", "cap_cosine", *quantities, *errors), tuple(rows))

    return table


def errata(good):
    columns = ("entry", "kind", "paper", "corrected", "simulated", "standard error")
    simulated = 1.0 if good else 2.0
    return Table("t", columns, (("e", "error", 2.0, 1.0, simulated, 0.01),))


MADE = {
    "fig01-cost-random": fig01,
    "fig02-roc": fig02,
    "fig03-cost-caps": fig03,
    "fig04-unit-probability": ranks,
    "fig05-matches-per-unit": ranks,
    "tab01-imbalance": tab01,
    "fig06-query-cost": fig06,
    "fig07-retrieval": fig07,
    "fig08-unit-counts": fig08,
    "fig09-pca": fig09,
    "fig10-deep": fig10,
    "fig11-codes-symmetric": codes,
    "fig12-codes-asymmetric": codes,
    "power-law": power,
    "flann": flann,
    "time": times,
    "fig13-streaming": fig13,
    "fig14-batches": fig14,
    "fig15-minibatch": fig15,
    "fig16-minibatch-cost": fig16,
    "fig17-100m": fig17,
    "fig18-cap-sum": caps("sum"),
    "fig19-cap-pinv": caps("pinv"),
    "errata": errata,
}

__all__ = ["MADE", "curves"]
