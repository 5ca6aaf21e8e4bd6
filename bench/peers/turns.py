"""How a peer takes turns with the other programs of a measurement; bench/support.hpp is the same for Weft's side."""
import statistics
import sys
import time


def take_turns(step, repeats=1):
    """Each line on standard input is a number of seconds: repeats `step`, which must finish what it starts, for so long,
    and answers with the median of one step, in milliseconds. The first calls, which compile, are not counted; the first
    line is "ready" and the seconds of the first one. Where `step` repeats what is measured, `repeats` says how often."""
    begin = time.perf_counter()
    step()
    first = time.perf_counter() - begin
    for _ in range(0 if repeats > 1 else 19):
        if time.perf_counter() - begin > first + 5:
            break
        step()
    print("ready %.6f" % first, flush=True)
    for line in sys.stdin:
        seconds, times, start = float(line), [], time.perf_counter()
        while time.perf_counter() - start < seconds or len(times) < 5:
            before = time.perf_counter()
            step()
            times.append((time.perf_counter() - before) * 1e3 / repeats)
        print("%.6g" % statistics.median(times), flush=True)


def repeated(call, finish=lambda: None):
    """Many calls until everything is done, about 20 ms of them, and how many; `finish` waits for a device."""
    begin = time.perf_counter()
    call()
    finish()
    first = time.perf_counter() - begin
    for _ in range(19):
        if time.perf_counter() - begin > first + 3:
            break
        call()
        finish()

    def step():
        for _ in range(calls):
            call()
        finish()
    calls = 1
    start = time.perf_counter()
    step()
    calls = max(2, min(200, int(20e-3 / (time.perf_counter() - start))))
    return step, calls
