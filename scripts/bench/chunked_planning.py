"""The table of scripts/bench/chunked about what planning costs."""

import re
import statistics

import record
from chunked_sides import Failed, Quarry

CHUNK = 16  # elements
SUM = "sum(x * 2 + 1)"


def runs_of_many(options, recorder, chunks, goal):
    """An elementwise computation and its sum over so many chunks: built, planned, run, with the memory of a process that does nothing else."""
    settings = {"QUARRY_DEVICE": "cpu", "QUARRY_THREADS": "2", "QUARRY_CHUNKS": str(CHUNK)}
    array = f"arange({chunks * CHUNK}.)"
    name = f"{chunks:.0e}".replace("e+0", "e") + " chunks"
    side = Quarry(options.build, settings)
    base = side.ask("peak")["bytes"]
    side.ask("set", "x", array)
    plan = side.ask("explain", SUM)
    tasks = int(re.search(r"^tasks: ([\d, ]+)", plan["text"], re.MULTILINE)[1].replace(",", "").replace(" ", ""))
    planned_bytes = side.ask("peak")["bytes"] - base
    add(recorder, f"{name}: {SUM} planned and lowered", plan["seconds"], "s", goal=record.goal("2 s", 2) if goal else None, note=f"{tasks} tasks")
    add(recorder, f"{name}: planning, per chunk", plan["seconds"] / chunks, "s", goal=record.goal("2 us", 2e-6))
    add(recorder, f"{name}: memory of planning", planned_bytes, "B", goal=record.goal("1 GiB", 2**30) if goal else None)
    seconds = side.ask("value", SUM, 1, "")["seconds"][0]
    add(recorder, f"{name}: planned and run", seconds, "s", note=f"{seconds / chunks * 1e6:.2f} us per chunk")
    add(recorder, f"{name}: memory of a run", side.ask("peak")["bytes"], "B", goal=None if goal else record.goal("2 GiB", 2**31))
    side.close()
    if goal:  # chunks that are in memory: a task for each
        side = Quarry(options.build, settings)
        side.ask("keep", "x", array)
        plan = side.ask("explain", "x * 2 + 1")
        tasks = int(re.search(r"^tasks: ([\d, ]+)", plan["text"], re.MULTILINE)[1].replace(",", "").replace(" ", ""))
        add(recorder, f"{name} kept: x * 2 + 1 planned, per task", plan["seconds"] / tasks, "s", goal=record.goal("2 us", 2e-6), note=f"{tasks} tasks")
        side.close()


def small_computations(options, recorder):
    side = Quarry(options.build, {"QUARRY_DEVICE": "cpu", "QUARRY_THREADS": "2"})
    side.ask("keep", "x", "arange(1000.)")
    side.ask("keep", "m", "arange(2500.).reshape(50, 50)")
    side.ask("keep", "b", "arange(50.)")
    distances = "((m[:, None, :] - m[None, :16, :]) ** 2).sum(2)"
    side.ask("set", "labels", f"({distances}.argmin(axis=1)[:, None] == arange(16)).astype(float)")
    few, many = record.goal("300 us", 3e-4), record.goal("1 ms", 1e-3)  # stages
    simple = ("sum(x * 2 + 1)", "x * 2 + 1", "m @ m", "sort(x)", "std(x)", "cumsum(x)")
    rows = [(expression, expression, few) for expression in simple]
    rows += [
        ("correlation", "corrcoef(m, rowvar=False)", many),
        ("logistic regression, one step", "b - 0.1 * (m.T @ (1 / (1 + exp(-(m @ b))) - b)) / m.shape[0]", many),
        ("k-means, one step", "(labels.T @ m) / labels.sum(axis=0)[:, None]", many),
    ]
    for name, expression, goal in rows:
        try:
            seconds = statistics.median(side.ask("value", expression, 301, "")["seconds"])
        except Failed as error:
            print(f"one chunk: {name}: {error}")
            continue
        add(recorder, f"one chunk: {name}", seconds, "s", goal=goal)
    side.close()


def tile_programs(options, recorder):
    """Tasks of a factorisation by 128 x 128 tiles, on a rank alone and on one of 1000, where nearly all are of others."""
    side = Quarry(options.build, {"QUARRY_DEVICE": "cpu", "QUARRY_THREADS": "2"})
    n = 1024
    for name, call in (("Cholesky", "linalg.cholesky"), ("triangular solve", "linalg.solve_triangular")):
        matrix = f"arange({n * n}.).reshape({n}, {n})"
        expression = f"{call}({matrix}{f', {matrix}' if call.endswith('triangular') else ''})"
        alone, among = (side.ask("lower", expression, ranks, ranks // 2, 5) for ranks in (1, 1000))
        own = statistics.median(alone["seconds"]) / alone["tasks"]
        add(recorder, f"tiles: {name}: lowering, per own task", own, "s", goal=record.goal("2 us", 2e-6), note=f"{alone['tasks']} tasks")
        others = among["all"] - among["tasks"]
        seconds = max(statistics.median(among["seconds"]) - own * among["tasks"], 0)
        add(recorder, f"tiles: {name}: lowering, per task of another rank", seconds / others, "s", goal=record.goal("50 ns", 5e-8), note=f"of 1000 ranks, {others} tasks")
    side.close()


def large_arrays(options, recorder, wrong):
    """10^12 elements, of which nothing but a slice is ever computed."""
    side = Quarry(options.build, {"QUARRY_DEVICE": "cpu", "QUARRY_THREADS": "2"})
    built = (("a sum of ranges", "arange(10**6)[:, None] * 10**6 + arange(10**6)"), ("a reshaped range", "arange(10**12).reshape(10**6, 10**6)"))
    rows = (
        ("sliced", "build", "x[100:-100, ::2][5:15, ::1000]"),
        ("a slice masked by a slice", "build", "x[5:15, ::1000][x[5:15, ::1000] % 3 == 0]"),
        ("a slice explained", "explain", "x[100:-100, ::2][5:15, ::1000] * 2 + 1"),
        ("a slice chosen by a mask, explained", "explain", "where(x[5:15, ::1000] % 3 == 0, x[5:15, ::1000], 0)"),
        ("a slice summed", "value", "x[5:15, ::1000].sum()"),
    )
    limit = 10
    for array, text in built:
        for name, request, expression in (("built", "build", text), *rows):
            name = f"10^12 elements, {array}: {name}"
            try:
                side.ask("set", "x", text)
                side.ask(request, *((expression,) if request == "explain" else (expression, 1, "")), limit=limit)
                if request == "explain":
                    seconds = statistics.median(side.ask("explain", expression)["seconds"] for _ in range(9))
                else:
                    seconds = statistics.median(side.ask(request, expression, 9, "", limit=9 * limit)["seconds"])
            except Failed as error:
                wrong.append(f"{name}: {error}")
                print(f"{name}: {error}", flush=True)
                continue
            add(recorder, name, seconds, "s", goal=record.goal("10 ms", 1e-2))
    side.close()


def add(recorder, name, value, unit, **columns):
    columns = {key: given for key, given in columns.items() if given is not None}
    record.show(recorder.add(name, value, unit, "lower", **columns))
    recorder.write()


def planning_table(options, recorder, _scratch):
    wrong = []
    parts = [("chunk", lambda: small_computations(options, recorder)), ("tiles", lambda: tile_programs(options, recorder)), ("10^12", lambda: large_arrays(options, recorder, wrong)),
             ("1e6", lambda: runs_of_many(options, recorder, 10**6 if options.size != "small" else 10**5, True))]  # fmt: skip
    if options.huge:
        parts.append(("1e7", lambda: runs_of_many(options, recorder, 10**7, False)))
    for name, part in parts:
        if options.only and options.only not in name:
            continue
        try:
            part()
        except Failed as error:
            wrong.append(f"{name}: {error}")
            print(f"{name}: {error}", flush=True)
    return wrong
