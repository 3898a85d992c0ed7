"""Is a new accuracy page worse than the one it would replace?

A page is read as what it is: tables under headings. Figures are compared label by label; those of the
committed page are rounded to a tenth of a percentage point, so no tolerance is below that.
"""

# Heading, column, by how many percentage points it may rise (or fall, where the sign is minus).
TOLERANCES = [
    ("Bars", "median abs error", 0.2),
    ("Bars", "90th percentile", 0.5),
    ("Throughput by family", "median abs error", 0.2),
    ("Throughput by family", "90th percentile", 0.5),
    ("Memory by family", "median abs error", 0.2),
    ("Memory by family", "90th percentile", 0.5),
    ("Anchored on a smaller run", "median abs error", 0.5),
    ("Anchored on a smaller run", "90th percentile", 1.0),
    ("Ranking", "regret, median group", 0.5),
    ("Ranking", "regret, 90% of groups", 1.0),
    ("Picks", "figure", 0.5),
]

# Heading and column whose counts may not fall: fewer runs judged are no better accuracy.
COUNTS = [("Runs", "projected"), ("Throughput by family", "runs"), ("Memory by family", "runs")]


def tables(page):
    """{heading: {label: {column: cell}}}; the first table under each heading."""
    out, heading, head = {}, "", []
    for line in page.splitlines():
        if line.startswith("#"):
            heading, head = line.strip("# "), []
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not head:
            head = cells
        elif not set("".join(cells)) <= set("-:"):
            out.setdefault(heading, {})[cells[0]] = dict(zip(head[1:], cells[1:]))
    return out


def number(cell):
    return float(cell.strip("%+").replace(",", ""))


def worse(before, after):
    """[(heading, label, sentence)] of all that got worse from one page to the other."""
    old, new = tables(before), tables(after)
    out = []
    for heading, column, tolerance in TOLERANCES:
        for label, cells in old.get(heading, {}).items():
            now = new.get(heading, {}).get(label)
            if now is None:
                out.append((heading, label, f"{heading}, {label}: no longer there"))
                continue
            was, is_now = number(cells[column]), number(now[column])
            if is_now > was + tolerance + 1e-9:
                out.append((heading, label, f"{heading}, {label}: {column} {was:.1f}% -> "
                            f"{is_now:.1f}%, more than {tolerance} points worse"))
    for heading, column in COUNTS:
        for label, cells in old.get(heading, {}).items():
            now = new.get(heading, {}).get(label)
            if now is not None and number(now[column]) < number(cells[column]):
                out.append((heading, label, f"{heading}, {label}: {column} {cells[column]} -> "
                            f"{now[column]}, fewer"))
    seen = set()
    return [w for w in out if not (w[2] in seen or seen.add(w[2]))]


def worst_rows(answers, heading, label, most=5):
    """Lines that name the runs with the largest errors of a family `file: family`."""
    part = {"Throughput by family": "throughput", "Memory by family": "memory"}.get(heading)
    name, _, family = label.partition(": ")
    if part is None or name not in answers:
        return []
    found = []
    for row in answers[name]["rows"]:
        error = row.get("error", {}).get(part)
        apart = part == "throughput" and (row.get("suspect") or row.get("excluded"))
        if row["family"] == family and error is not None and not apart:
            found.append((-abs(error), row["id"], error))
    return [f"{row}: {100 * error:+.1f}%" for _, row, error in sorted(found)[:most]]
