"""Writes docs/models.md and docs/models.svg: what `tools/measure models --peers` found."""
import datetime
import statistics

LABELS = {"weft compiled": "#2563eb", "torch compile": "#ea580c", "torch eager": "#fdba74", "weft eager": "#93c5fd"}


def table(found, mode):
    rows = [f"| {mode} | " + " | ".join(LABELS) + " | to torch.compile | first call | torch.compile's |", "|---|" + "---|" * (len(LABELS) + 3)]
    for (name, of), steps in found.items():
        if of != mode:
            continue
        cells = [f"{steps[label][0]:.3g} ms" if label in steps else "failed" for label in LABELS]
        ours, theirs = steps["weft compiled"], steps.get("torch compile")
        more = [f"{ours[0] / theirs[0]:.2f}x" if theirs else "", f"{ours[1]:.2g} s", f"{theirs[1]:.3g} s" if theirs else ""]
        rows.append("| " + " | ".join([name] + cells + more) + " |")
    return "\n".join(rows)


def plot(found):
    """Bars of the step's time, in torch eager's, one group a model."""
    width, left, bar, gap, top = 860, 150, 9, 12, 46
    parts, y = [], top
    scale = lambda ratio: min(ratio, 2.2) / 2.2 * (width - left - 70)
    for mode in ("forward", "training"):
        parts.append(f'<text x="{left}" y="{y}" class="h">{mode}: time of a step, torch eager = 1</text>')
        y += 12
        for (name, of), steps in found.items():
            if of != mode or "torch eager" not in steps:
                continue
            parts.append(f'<text x="{left - 8}" y="{y + 2 * bar + 3}" text-anchor="end">{name}</text>')
            for label, colour in LABELS.items():
                if label in steps:
                    ratio = steps[label][0] / steps["torch eager"][0]
                    parts.append(f'<rect x="{left}" y="{y}" width="{scale(ratio):.1f}" height="{bar - 1}" fill="{colour}"/>')
                    if label == "weft compiled":
                        parts.append(f'<text x="{left + scale(ratio) + 4:.1f}" y="{y + bar - 1}" class="n">{ratio:.2f}</text>')
                y += bar
            y += gap
        y += 24
    legend = "".join(f'<rect x="{left + i * 150}" y="8" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{left + 17 + i * 150}" y="18">{label}</text>' for i, (label, colour) in enumerate(LABELS.items()))
    style = "text{font:12px sans-serif;fill:#1f2937}.h{font-weight:bold}.n{font-size:10px}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img"><title>Whole models on the CPU</title>'
            f'<style>{style}</style><rect width="{width}" height="{y}" fill="#fff"/>{legend}{"".join(parts)}</svg>\n')


def mean(found, mode, label, which):
    return statistics.geometric_mean(steps[label][which] for (_, of), steps in found.items() if of == mode and label in steps)


def write(docs, found, machine):
    summary = [f"- {mode}: compiled {mean(found, mode, 'weft eager', 0) / mean(found, mode, 'weft compiled', 0):.2f} times as fast "
               f"as eager, {mean(found, mode, 'weft compiled', 0) / mean(found, mode, 'torch compile', 0):.2f} of torch.compile's "
               f"time, first calls {mean(found, mode, 'weft compiled', 1) / mean(found, mode, 'torch compile', 1):.2f} of its."
               for mode in ("forward", "training")]
    text = f"""# Whole models on the CPU

Made by `tools/measure models --peers` on {datetime.date.today()}: {machine['cpu']}, {machine['threads']} threads, load
{machine['load']:.1f} at the end; {machine['peers']}. The models of `examples/models`, small (`bench/models.cpp` has their sizes), in f32,
against torchvision's, Hugging Face's and PyTorch's own of the same sizes. Forward is the model in evaluation; training is
forward, backward and AdamW. First calls have empty caches. Geometric means over all models:

{chr(10).join(summary)}

![bars of both tables](models.svg)

{table(found, 'forward')}

{table(found, 'training')}
"""
    (docs / "models.md").write_text(text)
    (docs / "models.svg").write_text(plot(found))
