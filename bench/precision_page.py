"""precision_page.py [PROGRAM [STEPS]]: writes docs/precision.svg, the loss of each step of three models in f32 and under
autocast to bf16 and f16, and prints how far the curves lie from that of f32. PROGRAM is bench_precision, built in
build/release unless it is named."""
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bench/bench_precision"
MODELS = {"char-gpt": 200, "fashion-mnist": 200, "resnet-18": 60}
TYPES = {"f32": "#2563eb", "bf16": "#ea580c", "f16": "#16a34a"}


def smooth(losses, over):
    """The mean of each loss and those before it, of so many at most: one batch differs from the next."""
    return [statistics.mean(losses[max(0, i + 1 - over):i + 1]) for i in range(len(losses))]


def curve(x, y, width, height, losses, top):
    points = " ".join(f"{x + i / (len(losses) - 1) * width:.1f},{y + height - loss / top * height:.1f}"
                      for i, loss in enumerate(losses))
    return f'points="{points}"'


def main():
    parts, width, height = [], 250, 200
    for number, (name, steps) in enumerate(MODELS.items()):
        steps = int(sys.argv[2]) if len(sys.argv) > 2 else steps
        found = {}
        for kind in TYPES:
            text = subprocess.run([str(PROGRAM), name, kind, str(steps)], check=True, capture_output=True, text=True).stdout
            found[kind] = smooth([float(line) for line in text.split()], 10)
        for kind in ("bf16", "f16"):
            apart = [abs(a - b) for a, b in zip(found[kind], found["f32"])]
            print(f"{name} {kind}: last loss {found[kind][-1]:.4f}, of f32 {found['f32'][-1]:.4f}; "
                  f"mean distance {statistics.mean(apart):.4f}, greatest {max(apart):.4f}, {steps} steps", flush=True)
        x, y, top = 50 + number * (width + 45), 50, max(found["f32"]) * 1.05
        parts.append(f'<text x="{x}" y="{y - 12}" class="h">{name}</text>'
                     f'<path d="M{x} {y}V{y + height}H{x + width}" fill="none" stroke="#6b7280"/>'
                     f'<text x="{x - 6}" y="{y + 6}" text-anchor="end" class="n">{top:.1f}</text>'
                     f'<text x="{x - 6}" y="{y + height}" text-anchor="end" class="n">0</text>'
                     f'<text x="{x + width}" y="{y + height + 14}" text-anchor="end" class="n">{steps} steps</text>')
        for kind, colour in TYPES.items():
            parts.append(f'<polyline {curve(x, y, width, height, found[kind], top)} fill="none" stroke="{colour}" '
                         f'stroke-width="{3 if kind == "f32" else 1.2}" stroke-opacity="{0.35 if kind == "f32" else 1}"/>')
    legend = "".join(f'<rect x="{50 + i * 110}" y="8" width="12" height="12" fill="{colour}"/><text x="{67 + i * 110}" y="18">'
                     f'{kind}{"" if kind == "f32" else " autocast"}</text>' for i, (kind, colour) in enumerate(TYPES.items()))
    style = "text{font:12px sans-serif;fill:#1f2937}.h{font-weight:bold}.n{font-size:10px}"
    (ROOT / "docs/precision.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 930 280" role="img"><title>Losses under autocast</title>'
        f'<style>{style}</style><rect width="930" height="280" fill="#fff"/>{legend}{"".join(parts)}</svg>\n')


main()
