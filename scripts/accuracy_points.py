"""The section of the accuracy page on single kernels and collectives.

`eratos validate` prices every line of gemm_points.csv, attention_points.csv and collective_points.csv
alone, without a step around it. Lines whose CRC-32 (of the text without its line end) modulo 5 is 0
are held out: no fit sees them.
"""

from accuracy_page import asked, percent, table

NAMES = ["gemm_points.csv", "attention_points.csv", "collective_points.csv"]
LEAST = 50  # points of a part from which it is judged

# Mean error that held-out lines may have, by table and the part's beginning.
BARS = [
    ("gemm", ("h100", "h200", "h800", "h20"), 0.07),
    ("gemm", ("b200", "b300", "gb200", "gb300", "mi3"), 0.09),
    ("attention", ("",), 0.08),
    ("collective", ("",), 0.12),
]

INTRO = """Every line of the tables of measured kernels and collectives, priced alone: without a framework's
factors, overlap or host. error = priced time / measured time - 1. Held out: lines whose CRC-32, of the
text without its line end, is a multiple of 5; `eratos calibrate` fits constants to the others
([HACKING](HACKING.md#kernels-against-points)). Bars are for the mean error of held-out lines, for parts
with at least 50 priced points.
"""


def folder_beside(runs):
    """The folder `reference` beside the runs', where the tables stand; None where there is none."""
    folder = runs.resolve().parent / "reference"
    return folder if all((folder / name).exists() for name in NAMES) else None


def cells(errors):
    if errors["n"] == 0:
        return ["0", "-", "-", "-", "-"]
    return [str(errors["n"]), percent(errors["mean_abs"]), percent(errors["median_abs"]),
            percent(errors["p90_abs"]), percent(errors["mean"], sign=True)]


def bar_of(name, part):
    for what, beginnings, bar in BARS:
        if what == name and part.startswith(beginnings):
            return bar
    return None


HEAD = ["held out", "mean abs error", "median", "90th percentile", "mean error", "seen by the fit",
        "mean abs error"]


def row_of(label, group):
    return [label, *cells(group["held_out"]), *cells(group["seen"])[:2]]


def by_part(summary):
    rows = []
    for name, parts in summary["by_part"].items():
        for part, group in parts.items():
            enough = group["held_out"]["n"] + group["seen"]["n"] >= LEAST
            bar = bar_of(name, part)
            judged = enough and bar is not None and group["held_out"]["n"] > 0
            met = judged and group["held_out"]["mean_abs"] <= bar
            verdict = ["-", ""] if not judged else [percent(bar), "met" if met else "missed"]
            rows.append([*row_of(f"{name}: {part}", group), *verdict])
    return table(["", *HEAD, "bar", ""], rows)


def by_group(summary, name):
    return table([name, *HEAD],
                 [row_of(label, group) for label, group in summary["by_group"][name].items()])


def section(binary, folder):
    """Markdown, [] without a folder."""
    if folder is None:
        return []
    command = [str(binary), "validate", *(str(folder / name) for name in NAMES), "--format", "json"]
    summary = asked(command)["summary"]
    skipped = table(["not priced, by table and reason", "points"],
                    [[reason, str(n)] for reason, n in summary["skipped"].items()])
    out = ["## Kernels against points\n", INTRO,
           f"{summary['priced']} of {summary['points']} points are priced.\n", by_part(summary)]
    for name, heading in [("gemm", "Products"), ("attention", "Attention"),
                          ("collective", "Collectives")]:
        out += [f"### {heading}\n", by_group(summary, name)]
    return [*out, "### Points without a price\n", skipped]
