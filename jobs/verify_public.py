"""Verify the public folder of a run in SQL, without das_spark: for readers who do not trust das_spark.

    python jobs/verify_public.py RUN         the folder of a run, or its public folder; needs duckdb, nothing else

The rules come from manifest.json: files, rows, configuration, ledger and data dictionary (das_spark/io/README.md).
Every rule prints a line: "ok", "FAIL" (the exit code is 1), or "-" and why it was not judged. Nobody can verify from
outside how noise was drawn. Medians, intervals and counts of other runs are left to `das-spark verify`.
"""

import hashlib
import json
import sys
from fractions import Fraction
from math import prod
from pathlib import Path

try:
    import duckdb
except ModuleNotFoundError:
    sys.exit(f"DuckDB is not installed; nothing else is needed: {sys.executable} -m pip install duckdb")

ROOT = Path(*sys.argv[1:2]).resolve()
ROOT = ROOT / "public" if (ROOT / "public").is_dir() else ROOT
if not (ROOT / "manifest.json").is_file():
    sys.exit(f"{ROOT}: no manifest.json. Name the folder of one finished run; of a joint run, that of one of its parts")
WORDS = {"row", "title", "meaning"}  # of the data dictionary, for people; all its other texts may stand in a query
MANIFEST = json.loads((ROOT / "manifest.json").read_bytes(), object_hook=lambda d: d | dict.fromkeys(WORDS & {*d}))
BUDGET, OUTPUT, LEDGER = MANIFEST["config"]["budget"], MANIFEST["config"]["output"], MANIFEST["ledger"]
DESCRIBED = {entry["path"].replace("<census geolevel>", "<geolevel>"): entry for entry in MANIFEST["data_dictionary"]}
FILES = {file["name"]: file for file in MANIFEST["files"]}
if "(bounds)" not in DESCRIBED:
    sys.exit("the run is of a version whose data dictionary has no keys for programs")
if set("'\\;") & set(json.dumps([DESCRIBED, BUDGET, OUTPUT, FILES, MANIFEST["relaxed"]], ensure_ascii=False)):
    sys.exit("manifest.json has a name that cannot stand in a query")
SHAPE = {column["name"]: int(column["type"].split()[0]) for column in DESCRIBED["(schema)"]["columns"]}
BOUNDS = {column["name"]: column for column in DESCRIBED["(bounds)"]["columns"]}
CENSUS = {column["name"]: column for column in DESCRIBED["(geolevels)"]["columns"]}  # the levels of published tables
LEVELS = [level["geolevel"] for level in BUDGET["levels"]]  # the levels of the spine, root first
LEAF, CENSUS_LEAF = len(LEVELS) - 1, len(CENSUS) - 1  # depths
EXACT = LEVELS.index(at) if (at := LEDGER["invariants"]["total_at"]) in LEVELS else -1  # depth of the lowest totals
PUBLISHED = "census_estimates" if "spine/blocks" in DESCRIBED else "estimates"  # by geounits of published tables
#: SQL for the level of a cell: cells are numbered row-major over the attributes.
LEVEL = {name: f"(cell // {prod([*SHAPE.values()][i:])} % {SHAPE[name]})" for i, name in enumerate(SHAPE, start=1)}
PART, JOIN = "rtrim(substr(geocode, {0}, {1} - {0} + 1), '.')", " || '|' || "  # dots only fill up a part of a geocode
SQL = duckdb.connect()
failed: list[str] = []
rows: dict[str, int] = {}  # how many rows tables and files have, by the names of the manifest


def report(rule: str, number: int, wrong: list[str]) -> None:
    """Print how many values a rule compared, and what breaks it. A rule that compares nothing fails."""
    verdict = "FAIL" if wrong or not number else "ok"
    print(f"{verdict:5} {rule}: {number:,} compared" + "".join(f"; {text}" for text in wrong[:3]), flush=True)
    failed.extend([rule] * (verdict == "FAIL"))


def judge(rule: str, compared: str, failing: str) -> int:
    """Report a rule that the rows of a query break, and return how many rows another query compares."""
    number, wrong = 0, []
    try:
        number = SQL.sql(f"SELECT count(*) FROM ({compared})").fetchall()[0][0]
        wrong = SQL.sql(f"SELECT count(*) OVER () || ' wrong:', * FROM ({failing}) ORDER BY ALL LIMIT 3").fetchall()
    except duckdb.Error as error:
        wrong = [str(error).splitlines()[:1]]
    report(rule, number, [" ".join(map(str, row)) for row in wrong])
    return number


def rows_of(folder: str, names: list[str], delimiter: str = ",") -> str:
    """Write the rows of a folder as SQL. Lines of text that are comments, or name the columns, are no rows."""
    listed = [str(ROOT / name) for name in FILES if name.startswith(f"{folder}/") and "/_" not in name]
    options = f"hive_partitioning = {'/level=' in str(listed)}, hive_types_autocast = false"
    if not listed or listed[0].endswith(".parquet"):
        return f"read_parquet({listed}, {options})" if listed else ""
    options += f", columns = {dict.fromkeys(names, 'VARCHAR')}, delim = '{delimiter}', comment = '#', header = false"
    return f"""(FROM read_csv({listed}, {options}, quote = '', escape = '', auto_detect = false)
        WHERE [{", ".join(f'"{name}"' for name in names)}] <> {names})"""


def levels_of(ranges: str) -> list[int]:
    """List the levels that ranges such as 0-4,7 name."""
    ends = [[int(end) for end in part.split("-")] for part in ranges.split(",")]
    return [level for run in ends for level in range(run[0], run[-1] + 1)]


def answer_of(groups: dict[str, list[str]]) -> str:
    """Write as SQL the number of the answer that counts a cell; null where none does."""
    answer = "0"
    for name, texts in groups.items():
        numbers = {level: number for number, text in enumerate(texts) for level in levels_of(text)}
        listed = ", ".join(str(numbers.get(level, "NULL")) for level in range(SHAPE[name]))
        answer = f"({answer} * {len(texts)} + [{listed}][{LEVEL[name]} + 1])"
    return answer


def times_of(column: dict) -> str:
    """Write as SQL how often a column counts a cell: once if any of its selections has the cell, or once for each."""
    cells = [[f"{LEVEL[name]} IN {(*levels_of(text), -1)}" for name, text in item.items()] for item in column["counts"]]
    tests = [f"({' AND '.join(selection) or 'true'})::BIGINT" for selection in cells]
    return f"({' + '.join(tests)})" if "tallied" in column else f"greatest({', '.join(tests)}, 0)"


def records_of(view: str, path: str, running: str) -> tuple[str, list[dict]]:
    """Create a view of records and judge its constants and numbers; return SQL for blocks, and columns with codes."""
    columns = [{**column, "sql": f'"{column["name"]}"::VARCHAR'} for column in DESCRIBED[path]["columns"]]
    coded = [column for column in columns if "texts" in column]
    parts = sorted((column for column in columns if "digits" in column), key=lambda column: column["digits"])
    block, codes = (JOIN.join(column["sql"] for column in listed) or "''" for listed in (parts, coded))
    constant = " AND ".join(f"{column['sql']} = '{column['constant']}'" for column in columns if "constant" in column)
    numbers = [f"{column['sql']}::BIGINT AS {column['number']}, " for column in columns if "number" in column]
    lines = rows_of(path, [column["name"] for column in columns], DESCRIBED[path]["delimiter"])
    SQL.execute(f"""CREATE OR REPLACE TEMP VIEW {view} AS SELECT {"".join(numbers)}
        {block} AS block, {codes} AS codes, {constant or "true"} AS constant FROM {lines}""")
    wrong = f"SELECT block, codes FROM {view} WHERE constant IS NOT TRUE"
    if f"AS {running}, " in "".join(numbers):  # from 0 without gap or repetition
        wrong += f""" UNION ALL SELECT 'least, most', concat(min({running}), ', ', max({running})) FROM {view}
            HAVING (min({running}), max({running}), count(DISTINCT {running})) <> (0, count(*) - 1, count(*))"""
    rows[path] = judge(f"constants and numbers of {path}", f"FROM {view}", wrong)
    return JOIN.join(PART.format(*column["digits"]) for column in parts), coded


# 1. Files: those of the manifest, byte by byte, and no others. The budget is what the ledger counted.
odd = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_symlink() or not path.is_dir()}
odd -= {"manifest.json", "run.json", "verification.json", *FILES}
for name, file in FILES.items():
    path = ROOT / name
    good = path.resolve() == path and ROOT in path.parents and path.is_file() and path.stat().st_size == file["size"]
    if not good or hashlib.file_digest(path.open("rb"), "sha256").hexdigest() != file["sha256"]:
        odd.add(name)
report("files and their digests", len(MANIFEST["files"]), sorted(odd))
if failed:
    sys.exit("files are not those of the manifest: nothing else is verified")
spent = [{row["geolevel"]: row["share"] for row in BUDGET["levels"]}, *(row["queries"] for row in BUDGET["levels"])]
charged = [{level["geolevel"]: level["share"] for level in LEDGER["levels"]}]
charged += [{query["query"]: query["share"] for query in level["queries"]} for level in LEDGER["levels"]]
wrong = [name for name in ("framework", "total") if str(BUDGET[name]) != str(LEDGER[name])]
wrong += ["shares"] * (spent != charged or any(sum(map(Fraction, shares.values())) > 1 for shares in spent))
report("budget is what the ledger counted", len(LEVELS), wrong)

# 2. The spine, and a histogram for every geounit; the histograms of children sum to that of their parent.
nulls = {}
for table in ("geounits", "invariants", "bounds", "measurements", "estimates", PUBLISHED):
    levels = [*CENSUS] if table == PUBLISHED else LEVELS
    columns = [(column["name"], column["type"]) for column in DESCRIBED[f"{table}/level=<geolevel>"]["columns"]]
    typed = [f"NULL::{kind.removeprefix('array<').replace('>', '[]')} AS {name}" for name, kind in columns]
    lines = rows_of(table, []) or f"(SELECT '' AS level, {', '.join(typed)} WHERE false)"
    SQL.execute(f"CREATE OR REPLACE VIEW {table} AS SELECT *, list_position({levels}, level) - 1 AS depth FROM {lines}")
    rows |= dict.fromkeys((f"{table}/{level}" for level in levels), 0)
    rows |= dict(SQL.sql(f"SELECT '{table}/' || level, count(*) FROM {table} GROUP BY ALL").fetchall())
    tests = " OR ".join(f"{name} IS NULL" for name, _ in columns if name != "rows")  # null rows: all answers of a query
    nulls[f"SELECT geocode FROM {table}"] = f"SELECT '{table}', level, geocode FROM {table} WHERE {tests}"
judge("no nulls", " UNION ALL ".join(nulls), " UNION ALL ".join(nulls.values()))
wrong = f"""SELECT depth, geocode FROM geounits FULL JOIN estimates USING (depth, geocode, parent) FULL JOIN (
        SELECT depth - 1 AS depth, parent AS geocode, count(*) AS n FROM geounits WHERE depth > 0 GROUP BY ALL)
    USING (depth, geocode) GROUP BY ALL HAVING count(*) <> 1 OR any_value(cells) IS NULL
    OR any_value(children) IS DISTINCT FROM coalesce(any_value(n), 0) OR (any_value(n) IS NULL) <> (depth = {LEAF})"""
judge("geounits and their estimates", "FROM geounits", wrong)
for table, levels in {"estimates": LEVELS, PUBLISHED: list(CENSUS)}.items():
    wrong = f"""SELECT level, geocode FROM {table} WHERE len(cells) <> list_count(counts) OR list_min(counts) < 1 OR
        list_min(cells) < 0 OR list_max(cells) >= {prod(SHAPE.values())} OR cells <> list_sort(list_distinct(cells))"""
    judge(f"histograms of {table}", f"FROM {table}", wrong)
    cells = "depth, geocode, parent, unnest(cells) AS cell, unnest(counts) AS n"
    SQL.execute(f"CREATE TEMP TABLE cells_of_{table} AS SELECT {cells} FROM {table}")
    wrong = f"""SELECT {levels}[depth + 1] AS level, geocode, cell, sum(n) AS difference FROM (
            SELECT depth + 1 AS depth, geocode, cell, n FROM cells_of_{table} WHERE depth < {len(levels) - 1}
            UNION ALL SELECT depth, parent, cell, -n FROM cells_of_{table} WHERE depth > 0)
        WHERE level || '/' || geocode NOT IN (SELECT unnest({MANIFEST["relaxed"]}::VARCHAR[]))
        GROUP BY ALL HAVING sum(n) <> 0"""
    judge(f"children sum to parents in {table}", f"FROM cells_of_{table}", wrong)
blocks = rows_of("spine/blocks", []) or "(SELECT geocode AS block, [geocode] AS path FROM geounits WHERE NOT children)"
wrong = f"""SELECT block FROM {blocks} b FULL JOIN (FROM estimates WHERE depth = {LEAF}) e ON e.geocode = path[-1]
    FULL JOIN (FROM {PUBLISHED} WHERE depth = {CENSUS_LEAF}) p ON p.geocode = block
    WHERE e.cells IS NULL OR (e.cells, e.counts) IS DISTINCT FROM (p.cells, p.counts)"""
judge("blocks are leaves of the spine", f"FROM {blocks}", wrong)
if zeros := DESCRIBED.get("(structural_zeros)", {"columns": []})["columns"]:
    wrong = f"SELECT depth, geocode, cell FROM cells_of_estimates WHERE {' + '.join(map(times_of, zeros))} > 0"
    judge("structural zeros", "FROM cells_of_estimates", wrong)

# 3. What is exact is so in the estimates, answers lie within bounds, and geounits were asked what was declared.
totals = "name IN ('total', 'group_total')"
if EXACT >= 0:  # a group total is that of all geounits whose bound names the same area
    wrong = f"""SELECT level, geocode FROM (FROM geounits WHERE depth <= {EXACT})
        FULL JOIN (FROM invariants WHERE {totals}) USING (level, geocode) FULL JOIN (FROM bounds WHERE {totals})
        USING (level, geocode, name) WHERE children IS NULL OR values IS NULL OR [lower, upper] <> [values, values]
        UNION ALL SELECT level, member FROM bounds JOIN estimates USING (level, geocode) WHERE {totals}
            GROUP BY level, name, member, lower HAVING lower <> [sum(coalesce(list_sum(counts), 0))]"""
    judge("exact totals", f"FROM invariants WHERE {totals}", wrong)
SQL.execute("""CREATE VIEW limits AS SELECT depth, geocode, parent, name, member, unnest(lower) AS low,
    unnest(upper) AS high, unnest(range(greatest(len(lower), len(upper)))) AS answer FROM bounds""")
queries = BOUNDS | ({"flow": BOUNDS["class"]} if "class" in BOUNDS else {})
for (name,) in SQL.sql(f"SELECT DISTINCT name FROM bounds WHERE name IN {*queries, 'total'} ORDER BY name").fetchall():
    size, limits = int(queries[name]["type"].split()[0]) + (name == "flow"), f"FROM limits WHERE name = '{name}'"
    keys = "member, answer" if name == "flow" else "depth, geocode, answer"
    answers = f"SELECT *, {answer_of(queries[name]['groups'])} AS answer FROM cells_of_estimates"
    if name == "flow":  # classes, then total, of the geounits whose exact total the member has
        answers = f"""SELECT right(geocode, (SELECT max(len(member)) {limits})) AS member,
            unnest([answer, {size - 1}]) AS answer, n FROM ({answers}) WHERE depth = {EXACT}"""
    wrong = f"""SELECT depth, geocode, answer FROM ({limits})
            LEFT JOIN (SELECT {keys}, sum(n) AS n FROM ({answers}) GROUP BY ALL) USING ({keys})
        WHERE (coalesce(n, 0) BETWEEN low AND high) IS NOT TRUE OR (member <> geocode AND name <> 'flow')
        UNION ALL SELECT depth, geocode, count(*) {limits} GROUP BY depth, geocode, member HAVING count(*) <> {size}"""
    judge(f"bounds of {name}", limits, wrong)
below = f"FROM limits WHERE name = 'class' AND depth > {max(EXACT, 0)}"
if SQL.sql(f"{below} AND EXISTS (FROM invariants WHERE name = 'units') LIMIT 1").fetchall():
    wrong = f"""SELECT depth, geocode, answer FROM (
            SELECT depth, geocode, answer, low, high FROM limits WHERE name = 'class' AND depth < {LEAF}
            UNION ALL SELECT depth - 1, parent, answer, -low, -high {below}) WHERE depth >= {EXACT}
        GROUP BY ALL HAVING sum(low) < 0 OR sum(high) > 0 OR (depth > {EXACT} AND sum(high - low) <> 0)"""
    judge("bounds of class sum to parents", below, wrong)
sizes = {column["name"]: int(column["type"].split()[0]) for column in DESCRIBED["(queries)"]["columns"]}
asked = [(level["geolevel"], query, sizes[query]) for level in BUDGET["levels"] for query in level["queries"]]
wrong = f"""SELECT m.level, geocode, m.query FROM measurements m
        LEFT JOIN (VALUES {str(asked)[1:-1]}) a(level, query, size) ON (a.level, a.query) = (m.level, m.query)
    WHERE size IS NULL OR list_count(values) <> coalesce(len(rows), size) OR NOT variance > 0
        OR list_min(rows) < 0 OR list_max(rows) >= size OR rows <> list_sort(list_distinct(rows))
    UNION ALL SELECT level, geocode, query FROM measurements GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT level, geocode, query FROM measurements ANTI JOIN geounits USING (depth, geocode, parent)"""
judge("measurements", "FROM measurements", wrong)
SQL.execute("""CREATE VIEW answers AS SELECT depth, geocode, parent, query, variance, unnest(values) AS value,
    unnest(coalesce(rows, range(len(values)))) AS answer FROM measurements""")
pairs = """FROM answers JOIN (SELECT depth - 1 AS depth, parent AS geocode, query, answer, sum(value) AS below,
        sum(variance) AS more, count(*) AS children FROM answers GROUP BY ALL)
    USING (depth, geocode, query, answer) JOIN geounits USING (depth, geocode, children)"""
if SQL.sql(f"{pairs} LIMIT 1").fetchall():  # children and parents differ by noise: by 50 standard deviations at most
    judge("differences of noise", pairs, f"{pairs} WHERE abs(below - value) > 50 * (sqrt(variance + more) + 1)")

# 4. Microdata: as many records of each combination of codes as the estimates of leaves say, in units that are exact.
kinds = {path.removeprefix("microdata/").split(".")[0] for path in DESCRIBED if path.startswith("microdata/")}
counted = next(iter(kinds - {"unit"}), "unit")  # units that people are assigned to have a file of their own
of_units, leaves = counted in ("unit", "household"), f"{PUBLISHED} WHERE depth = {CENSUS_LEAF}"
exact = f"FROM (SELECT block AS geocode, name, values FROM invariants JOIN {blocks} ON geocode = path[-1]) WHERE name ="
classes = SQL.sql(f"SELECT coalesce(max(len(values)), 0) {exact} 'units'").fetchall()[0][0]
class_of_cell = "0" if of_units or "class" not in BOUNDS else answer_of(BOUNDS["class"]["groups"])
expected = f"SELECT geocode, cell, {class_of_cell} AS kind, n FROM cells_of_{leaves}"
if of_units:  # units of other classes, and vacant ones, are listed without being counted
    expected += f" UNION ALL SELECT geocode, NULL, unnest(range(1, len(values))), unnest(values[2:]) {exact} 'units'"
if counted == "household":
    expected += f""" UNION ALL SELECT geocode, NULL, {classes}, sum(n) FROM (
        SELECT geocode, values[1] AS n {exact} 'units' UNION ALL SELECT geocode, values[1] {exact} 'vacant'
        UNION ALL SELECT geocode, -list_sum(counts) FROM {leaves} AND {classes} > 0) GROUP BY ALL"""
for form in OUTPUT["microdata"]:
    block, coded = records_of("people", f"microdata/{counted}.{form}", "record_number")
    name, kind, records = f"{counted}.{form}", "NULL", "people"
    if len(kinds) > 1:
        unit_block, listed = records_of("units", f"microdata/unit.{form}", "unit_number")
        texts = ["|".join(texts) for texts in zip(*(column["texts"] for column in listed), strict=True)]
        wrong = f"""SELECT block, kind, sum(n) AS difference FROM (
                SELECT block, list_position({texts}, codes) - 1 AS kind, -1 AS n FROM units
                UNION ALL SELECT {unit_block}, unnest(range(len(values))), unnest(values) {exact} 'units'
                UNION ALL SELECT {unit_block}, {len(texts) - 1}, values[1] {exact} 'vacant')
            GROUP BY ALL HAVING sum(n) <> 0"""
        judge(f"units of unit.{form}", "FROM units", wrong)
        wrong = """SELECT block, unit_number FROM units FULL JOIN (SELECT block, unit_number, count(*) AS n,
                [min(person_number), max(person_number), count(DISTINCT person_number)] AS numbers
                FROM people GROUP BY ALL) USING (block, unit_number)
            WHERE population IS DISTINCT FROM coalesce(n, 0) OR numbers <> [1, n, n]"""
        judge(f"people in units of unit.{form}", "FROM units", wrong)
        kind, units = "kind", f"SELECT unit_number, list_position({texts}, codes) - 1 AS kind FROM units"
        records = f"(SELECT * FROM people LEFT JOIN ({units}) USING (unit_number))"
    most = max([len(column["texts"]) for column in coded if "by" not in column], default=0)
    if any("divided" in column for column in coded) or (counted == "household" and most > classes + 1):
        print(f"-     records of {name}: not judged: counts that another run has published tell some apart")
        continue
    texts = []
    for column in coded:
        groups = {attribute: [str(level) for level in range(SHAPE[attribute])] for attribute in column.get("by", ())}
        level = f"coalesce({answer_of(groups)}, {len(column['texts']) - 1})" if groups else "kind"
        texts.append(f"{column['texts']}[{level} + 1]")
    wrong = f"""SELECT block, codes, kind, sum(n) AS difference FROM (
            SELECT {block} AS block, {JOIN.join(texts) or "''"} AS codes, {kind} AS kind, n FROM ({expected})
            UNION ALL SELECT block, codes, {kind}, -1 FROM {records}) GROUP BY ALL HAVING sum(n) <> 0"""
    judge(f"records of {name}", "FROM people", wrong)

# 5. Published tables: what the estimates of every geounit add up to.
codes = [f"WHEN '{level}' THEN {PART.format(*item['digits'])}" for level, item in CENSUS.items() if "digits" in item]
for path in (path for path in DESCRIBED if path.startswith("tables/")):
    table, columns = path.split(".<")[0], DESCRIBED[path]["columns"][1:]
    if any("counts" not in column for column in columns):
        print(f"-     {table}: not judged: it contains other things than sums of estimates")
        continue
    sums = [f'coalesce(sum(n * {times_of(column)}), 0)::BIGINT AS "{column["name"]}"' for column in columns]
    SQL.execute(f"""CREATE OR REPLACE TEMP TABLE due AS
        SELECT level, CASE level WHEN '' THEN '' {" ".join(codes)} ELSE geocode END AS code, {", ".join(sums)}
        FROM {PUBLISHED} LEFT JOIN cells_of_{PUBLISHED} USING (depth, geocode) GROUP BY ALL""")
    for form in OUTPUT["tables"]:
        lines = rows_of(f"{table}.{form}", ["geocode", *(column["name"] for column in columns)])
        lines = f"SELECT level, geocode, COLUMNS(* EXCLUDE (level, geocode))::BIGINT FROM {lines}"
        wrong = f"""SELECT level, code FROM (SELECT * EXCLUDE (n), sum(n) AS difference FROM (
            SELECT *, 1 AS n FROM due SEMI JOIN ({lines}) USING (level) UNION ALL SELECT *, -1 FROM ({lines}))
            GROUP BY ALL HAVING difference <> 0)"""
        rows[f"{table}.{form}"] = judge(f"{table}.{form}", lines, wrong)
report("numbers of rows", len(rows), [name for name, n in rows.items() if MANIFEST["rows"].get(name, n) != n])
known = ("total", "group_total", *(("units", "vacant") if of_units or len(kinds) > 1 else ()))
unknown = f"""SELECT DISTINCT 'invariants of ' || name FROM invariants WHERE name NOT IN {known}
    UNION SELECT DISTINCT 'bounds of ' || name FROM bounds WHERE name NOT IN {(*queries, "group_total")}
    UNION SELECT 'structural zeros' WHERE {"(structural_zeros)" not in DESCRIBED}"""
for (rule,) in SQL.sql(f"{unknown} ORDER BY ALL").fetchall():
    print(f"-     {rule}: not judged: the run publishes nothing that it could be compared with")
sys.exit(1 if failed else 0)
