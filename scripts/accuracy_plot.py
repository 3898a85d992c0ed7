"""Projected against measured as one small SVG: log-log, a mark a run, coloured by family.

Deterministic: the same runs give the same bytes. The colours are those of M. Okabe and K. Ito, Color
Universal Design, 2008, without its yellow, then two of P. Tol, Colour Schemes, 2021: made for eyes
with any common kind of colour blindness. Shapes take turns too.
"""

import html
import math

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#882255",
           "#999933"]
OTHERS = "#8c8c8c"
NAMED = len(COLOURS)  # families with a style of their own; the rest share one

WIDTH, HEIGHT = 760, 560
LEFT, TOP, SIDE = 74, 46, 450  # of the square that holds the marks


def path_of(shape, x, y):
    """One mark as part of a path."""
    if shape == "cross":
        return f"M{x - 2.2:.1f} {y - 2.2:.1f}l4.4 4.4m0-4.4l-4.4 4.4"
    if shape == "triangle":
        return f"M{x:.1f} {y - 2.8:.1f}l2.8 4.8h-5.6z"
    return f"M{x:.1f} {y:.1f}h0"


def paint_of(shape, colour):
    if shape == "cross":
        return f'fill="none" stroke="{colour}" stroke-width="1.3"'
    if shape == "triangle":
        return f'fill="{colour}"'
    cap, width = ("round", 4) if shape == "circle" else ("square", 3.2)
    return f'fill="none" stroke="{colour}" stroke-width="{width}" stroke-linecap="{cap}"'


def styles(points):
    """[(name, shape, colour, its points)], those with the most runs first, all others last."""
    families = {}
    for family, x, y in points:
        families.setdefault(family, []).append((x, y))
    order = sorted(families, key=lambda name: (-len(families[name]), name))
    out = []
    for i, name in enumerate(order[:NAMED]):
        shape = ("circle", "square", "triangle", "cross")[i % 4]
        out.append((name, shape, COLOURS[i], families[name]))
    rest = [p for name in order[NAMED:] for p in families[name]]
    if rest:
        out.append((f"{len(order) - NAMED} others", "circle", OTHERS, rest))
    return out


def limits(points):
    """Both axes from and to 1, 2 or 5 times a power of ten, as logarithms."""
    values = [v for _, x, y in points for v in (x, y)]
    round_ones = [math.log10(n) + power for power in range(-12, 18) for n in (1, 2, 5)]
    low = max(r for r in round_ones if r <= math.log10(min(values)) + 1e-9)
    return low, min(r for r in round_ones if r >= math.log10(max(values)) - 1e-9 and r > low)


def tick(power):
    if power > 5 or power < -3:
        return f"1e{power}"
    return f"{10 ** power:,}" if power >= 0 else f"{10.0 ** power:.{-power}f}"


def scatter(title, unit, points):
    """The SVG of points (family, measured, projected), all above zero, in `unit`."""
    low, high = limits(points)
    scale = SIDE / (high - low)

    def at(value):
        return (math.log10(value) - low) * scale

    def across(value):
        return LEFT + at(value)

    def down(value):
        return TOP + SIDE - at(value)

    shift = scale * math.log10(1.1), scale * math.log10(1 / 0.9)  # above and below the diagonal
    right, bottom = LEFT + SIDE, TOP + SIDE
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">',
        f"<title>{html.escape(title)}</title>",
        f"<desc>{len(points)} runs, measured along, projected upwards, both logarithmic; the band "
        "is 10% to either side of what was measured.</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="26" font-size="16" font-weight="bold">{html.escape(title)}</text>',
        f'<clipPath id="c"><path d="M{LEFT} {TOP}h{SIDE}v{SIDE}h-{SIDE}z"/></clipPath>',
        '<g clip-path="url(#c)">',
        f'<path d="M{LEFT} {bottom - shift[0]:.1f}L{right} {TOP - shift[0]:.1f}'
        f'V{TOP + shift[1]:.1f}L{LEFT} {bottom + shift[1]:.1f}z" fill="#e4e4e4"/>',
        "</g>",
    ]
    grid, labels = [], []
    for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1):
        x, y = across(10.0 ** power), down(10.0 ** power)
        grid.append(f"M{x:.1f} {TOP}V{bottom}M{LEFT} {y:.1f}H{right}")
        labels.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick(power)}'
                      "</text>")
        labels.append(f'<text x="{LEFT - 7}" y="{y + 4.5:.1f}" text-anchor="end">{tick(power)}'
                      "</text>")
    out.append(f'<path d="{"".join(grid)}" stroke="#c8c8c8" stroke-width="0.7"/>')
    out.append(f'<path d="M{LEFT} {TOP}h{SIDE}v{SIDE}h-{SIDE}z" fill="none" stroke="#909090"/>')
    out.append(f'<path d="M{LEFT} {bottom}L{right} {TOP}" stroke="#606060" stroke-width="1"/>')
    out.append('<g clip-path="url(#c)" opacity="0.75">')
    drawn = styles(points)
    for _, shape, colour, marks in drawn:
        places = sorted({(round(across(x), 1), round(down(y), 1)) for x, y in marks})
        path = "".join(path_of(shape, x, y) for x, y in places)
        out.append(f'<path {paint_of(shape, colour)} d="{path}"/>')
    out.append("</g>")
    out += labels
    out.append(f'<text x="{LEFT + SIDE / 2:.0f}" y="{bottom + 42}" text-anchor="middle">measured, '
               f"{html.escape(unit)}</text>")
    out.append(f'<text transform="translate(16 {TOP + SIDE / 2:.0f}) rotate(-90)" '
               f'text-anchor="middle">projected, {html.escape(unit)}</text>')
    y = TOP + 12
    for name, shape, colour, marks in drawn:
        out.append(f'<path {paint_of(shape, colour)} d="{path_of(shape, right + 24, y - 4)}"/>')
        out.append(f'<text x="{right + 36}" y="{y}">{html.escape(name)}</text>')
        out.append(f'<text x="{WIDTH - 12}" y="{y}" text-anchor="end">{len(marks):,}</text>')
        y += 21
    y += 6
    out.append(f'<path d="M{right + 17} {y - 10}h14v10h-14z" fill="#e4e4e4"/>')
    out.append(f'<text x="{right + 36}" y="{y}">within 10%</text>')
    return "\n".join(out) + "\n</svg>\n"
