"""Verify what a run has published, from its public folder alone, in SQL: for whoever does not trust das_spark.

    python jobs/verify_public.py RUN         the folder of a run, or its public folder; needs duckdb, nothing else

Nothing of das_spark is imported, and no Spark started. What files and columns hold is read in the manifest: in its
files, rows, configuration, ledger and data dictionary (its keys for programs: das_spark/io/README.md). A line for each
rule says how much was compared, what fails (then the exit code is 1), or why nothing is looked at. How noise was drawn
cannot be verified from outside; intervals, medians and what follows from the published counts of another run are left
to `das-spark verify`.
"""

import hashlib
import json
import sys
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

try:
    import duckdb
except ImportError:
    sys.exit("this needs DuckDB: python -m pip install duckdb")

RUN = Path(*sys.argv[1:])
ROOT = RUN / "public" if (RUN / "public").is_dir() else RUN
if not sys.argv[1:]:
    sys.exit(__doc__)
if not (ROOT / "manifest.json").is_file():
    sys.exit(f"{ROOT}: no manifest.json. Name the folder of one finished run; of a joint run, that of one of its parts")
MANIFEST = json.loads((ROOT / "manifest.json").read_text(encoding="utf-8"))
BUDGET, OUTPUT, LEDGER = MANIFEST["config"]["budget"], MANIFEST["config"]["output"], MANIFEST["ledger"]
DESCRIBED = {entry["path"].replace("<census geolevel>", "<geolevel>"): entry for entry in MANIFEST["data_dictionary"]}
if "(bounds)" not in DESCRIBED:
    sys.exit("the run is of a version whose data dictionary has no keys for programs")
SHAPE = {column["name"]: int(column["type"].split()[0]) for column in DESCRIBED["(schema)"]["columns"]}
BOUNDS = {column["name"]: column for column in DESCRIBED["(bounds)"]["columns"]}
LEVELS = [level["geolevel"] for level in BUDGET["levels"]]  # of the spine, root first
CENSUS = {column["name"]: column for column in DESCRIBED["(geolevels)"]["columns"]}  # of what is published
#: On a spine of areas, what is published stands once more by geounits of the census.
PUBLISHED = "census_estimates" if "spine/blocks" in DESCRIBED else "estimates"
LEAF, CENSUS_LEAF = f"depth = {len(LEVELS) - 1}", f"depth = {len(CENSUS) - 1}"
TEXTS = [*LEVELS, *MANIFEST["relaxed"], *(query for level in BUDGET["levels"] for query in level["queries"])]
TEXTS += [each["name"] for each in MANIFEST["files"]] + [*DESCRIBED, *OUTPUT["microdata"], *OUTPUT["tables"]]
for entry in DESCRIBED.values():
    TEXTS.append(entry.get("delimiter", ""))
    for column in entry["columns"]:
        TEXTS += [column["name"], column.get("constant", ""), *column.get("texts", ())]
if odd := [text for text in TEXTS if set(text) & set("'\"\\;\n")]:
    sys.exit(f"manifest.json: {odd[0]!r} cannot stand in a query")
SQL = duckdb.connect()
failed: list[str] = []


def say(rule: str, text: str, verdict: str = "FAIL") -> None:
    """Print what became of a rule."""
    print(f"{verdict:5} {rule}: {text}", flush=True)
    failed.extend([rule] * (verdict == "FAIL"))


def said(rule: str, number: int, bad: list[str]) -> None:
    """Say of something that was compared without SQL what is wrong with it."""
    say(rule, f"{number:,} compared" + "".join(f"; {name}" for name in bad[:3]), "FAIL" if bad else "ok")


def judge(rule: str, compared: str, failing: str) -> None:
    """Say that a rule holds if a query finds no row; another one has the rows or values that the rule looks at."""
    number, bad = (SQL.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0] for sql in (compared, failing))
    some = SQL.execute(f"SELECT * FROM ({failing}) ORDER BY ALL LIMIT 3").fetchall() if bad else []
    named = f"{number:,} compared, {bad:,} wrong" + "".join("; " + " ".join(map(str, row)) for row in some)
    say(rule, named if number else "nothing to compare", "FAIL" if bad or not number else "ok")


def files(folder: str) -> list[str]:
    """The files in a folder that hold rows or records."""
    names = [each["name"] for each in MANIFEST["files"] if each["name"].startswith(f"{folder}/")]
    return [str(ROOT / name) for name in names if not name.endswith("/_SUCCESS")]


def parquet(folder: str) -> str:
    """SQL for the rows in a folder."""
    return f"read_parquet({files(folder)}, hive_partitioning = false)"


def levels_of(ranges: str) -> list[int]:
    """The levels that ranges such as 0-4,7 name."""
    ends = [[int(end) for end in part.split("-")] for part in ranges.split(",")]
    return [level for run in ends for level in range(run[0], run[-1] + 1)]


def level_of(*attributes: str) -> str:
    """SQL for the level of a cell: cells are numbered row-major over the attributes, and so are levels of several."""
    names, level = list(SHAPE), "0"
    for name in attributes:
        below = prod(SHAPE[each] for each in names[names.index(name) + 1 :])
        level = f"({level} * {SHAPE[name]} + cell // {below} % {SHAPE[name]})"
    return level


def selected(selection: dict[str, str]) -> str:
    """SQL for whether a cell has one of the levels that are named of each attribute."""
    each = [f"{level_of(name)} IN ({', '.join(map(str, levels_of(text)))})" for name, text in selection.items()]
    return f"({' AND '.join(each) or 'true'})"


def answer_of(query: dict[str, Any]) -> str:
    """SQL for the answer of a query that counts a cell; null where none does."""
    answer = "0"
    for name, groups in query["groups"].items():
        known = {level: number for number, text in enumerate(groups) for level in levels_of(text)}
        listed = ", ".join(str(known.get(level, "NULL")) for level in range(SHAPE[name]))
        answer = f"({answer} * {len(groups)} + [{listed}][{level_of(name)} + 1])"
    return answer


def part_of_geocode(digits: list[int]) -> str:
    """SQL for some characters of a geocode; dots fill up what is a code of its own."""
    return f"rtrim(substr(geocode, {digits[0]}, {digits[1] - digits[0] + 1}), '.')"


class Records:
    """The records of a file of microdata, and SQL that puts them together with cells and geocodes."""

    def __init__(self, kind: str, form: str) -> None:
        """Read in the dictionary what the columns hold."""
        self.name, path = f"{kind}.{form}", f"microdata/{kind}.{form}"
        self.columns = [{**column, "sql": f'"{column["name"]}"'} for column in DESCRIBED[path]["columns"]]
        first, names = self.columns[0], [column["name"] for column in self.columns]
        if form == "parquet":
            texts = ", ".join(f"{column['sql']}::VARCHAR AS {column['sql']}" for column in self.columns)
            self.rows = f"(SELECT {texts} FROM {parquet(path)})"
        else:  # comments, and lines of the names of columns, are no records
            options = f"columns = {dict.fromkeys(names, 'VARCHAR')}, delim = '{DESCRIBED[path]['delimiter']}'"
            options += ", comment = '#', quote = '', escape = '', header = false, auto_detect = false"
            self.rows = f"(FROM read_csv({files(path)}, {options}) WHERE {first['sql']} <> '{first['name']}')"
        self.number = {column["number"]: column["sql"] for column in self.columns if "number" in column}
        self.coded = [column for column in self.columns if "texts" in column]
        self.codes = " || '|' || ".join(column["sql"] for column in self.coded) or "''"
        places = sorted((column for column in self.columns if "digits" in column), key=lambda column: column["digits"])
        self.place = " || ".join(column["sql"] for column in places)
        self.place_of_geocode = " || ".join(part_of_geocode(column["digits"]) for column in places)

    def codes_of_cell(self) -> str:
        """SQL for the codes of a cell, or, where that is null, of a kind of units that are listed without a cell."""
        texts = []
        for column in self.coded:
            level = f"coalesce({level_of(*column['by'])}, {len(column['texts']) - 1})" if "by" in column else "kind"
            texts.append(f"{column['texts']}[{level} + 1]")
        return " || '|' || ".join(texts) or "''"

    def check(self, running: str) -> None:
        """Constants are constant, and running numbers are 0, 1, ... without gap and repetition."""
        constant = [column for column in self.columns if "constant" in column]
        wrong = " OR ".join(f"{each['sql']} IS DISTINCT FROM '{each['constant']}'" for each in constant) or "false"
        judge(f"constants of {self.name}", f"FROM {self.rows}", f"FROM {self.rows} WHERE {wrong}")
        if number := self.number.get(running):
            facts = (
                f"min({number}::BIGINT) AS least, max({number}::BIGINT) AS most, count(DISTINCT {number}) AS different"
            )
            facts = f"SELECT count(*) AS n, {facts} FROM {self.rows}"
            wrong = f"FROM ({facts}) WHERE n > 0 AND (least, most, different) <> (0, n - 1, n)"
            judge(f"{running} of {self.name}", f"FROM {self.rows}", wrong)


# 1. Files: those of the manifest, byte by byte, and no others. What the ledger counted is what is spent.
bad = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_symlink() or not path.is_dir()}
bad -= {"manifest.json", "run.json", "verification.json", *(each["name"] for each in MANIFEST["files"])}
for each in MANIFEST["files"]:
    path = ROOT / each["name"]
    if path.is_symlink() or not path.is_file() or path.stat().st_size != each["size"]:
        bad.add(each["name"])
        continue
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != each["sha256"]:
            bad.add(each["name"])
said("files and their digests", len(MANIFEST["files"]), sorted(bad))
if failed:
    sys.exit("files are not those of the manifest: nothing else is looked at")
shares = [[Fraction(level["share"]) for level in source["levels"]] for source in (BUDGET, LEDGER)]
spent = [{name: Fraction(share) for name, share in level["queries"].items()} for level in BUDGET["levels"]]
charged = [{each["query"]: Fraction(each["share"]) for each in level["queries"]} for level in LEDGER["levels"]]
differing = {
    "framework or total": any(str(BUDGET[name]) != str(LEDGER[name]) for name in ("framework", "total")),
    "shares of levels": shares[0] != shares[1] or sum(shares[0]) > 1,
    "shares of queries": spent != charged or any(sum(each.values()) > 1 for each in charged),
}
said("budget is what the ledger counted", len(LEVELS), [name for name, differs in differing.items() if differs])

# 2. The spine, and one histogram for each of its geounits; the histograms of children sum to that of their parent.
KINDS = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "array<long>": "BIGINT[]",
    "array<int>": "INTEGER[]",
    "double": "DOUBLE",
}
TABLES = dict.fromkeys(("geounits", "invariants", "bounds", "measurements", "estimates"), LEVELS)
for table, levels in (TABLES | {PUBLISHED: list(CENSUS)}).items():
    typed = {column["name"]: KINDS[column["type"]] for column in DESCRIBED[f"{table}/level=<geolevel>"]["columns"]}
    nothing = ", ".join(f"NULL::{kind} AS {name}" for name, kind in typed.items())
    selects = [f"SELECT '' AS level, 0 AS depth, {nothing} WHERE false"]
    for depth, folder in enumerate(f"{table}/level={level}" for level in levels):
        if files(folder):
            selects.append(f"SELECT '{levels[depth]}', {depth}, {', '.join(typed)} FROM {parquet(folder)}")
    SQL.execute(f"CREATE VIEW {table} AS {' UNION ALL '.join(selects)}")
    rows = dict(SQL.execute(f"SELECT level, count(*) FROM {table} GROUP BY ALL").fetchall())
    due = {level: MANIFEST["rows"].get(f"{table}/{level}", rows.get(level, 0)) for level in levels}
    said(f"rows of {table}", sum(due.values()), [level for level in levels if rows.get(level, 0) != due[level]])
wrong = f"""SELECT level, geocode FROM geounits GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT level, geocode FROM geounits g
        ANTI JOIN geounits p ON (p.depth + 1, p.geocode) = (g.depth, g.parent) WHERE depth > 0
    UNION ALL SELECT level, geocode FROM geounits LEFT JOIN (SELECT depth - 1 AS depth, parent AS geocode, count(*) AS n
        FROM geounits GROUP BY ALL) USING (depth, geocode)
        WHERE children <> coalesce(n, 0) OR (n IS NULL) <> ({LEAF})"""
judge("geounits of the spine", "FROM geounits", wrong)
wrong = """SELECT level, geocode FROM (SELECT level, geocode, parent, 1 AS due, 0 AS n FROM geounits UNION ALL
    SELECT level, geocode, parent, 0, 1 FROM estimates)
    GROUP BY level, geocode, parent HAVING (sum(due), sum(n)) <> (1, 1)"""
judge("an estimate for each geounit", "FROM estimates", wrong)
for table, levels in {"estimates": LEVELS, PUBLISHED: list(CENSUS)}.items():
    wrong = f"""SELECT level, geocode FROM {table} WHERE len(cells) IS DISTINCT FROM len(counts)
        OR list_min(counts) < 1 OR list_min(cells) < 0 OR list_max(cells) >= {prod(SHAPE.values())}
        OR cells <> list_sort(list_distinct(cells))"""
    judge(f"histograms of {table}", f"FROM {table}", wrong)
    cells = "depth, geocode, parent, unnest(cells) AS cell, unnest(counts) AS n"
    SQL.execute(f"CREATE TEMP TABLE cells_of_{table} AS SELECT {cells} FROM {table}")
    wrong = f"""SELECT {levels}[depth + 1] AS level, geocode, cell, sum(n) AS difference FROM (
            SELECT depth + 1 AS depth, geocode, cell, n FROM cells_of_{table} WHERE depth < {len(levels) - 1}
            UNION ALL SELECT depth, parent, cell, -n FROM cells_of_{table} WHERE depth > 0)
        WHERE level || '/' || geocode NOT IN (SELECT unnest({MANIFEST["relaxed"]}::VARCHAR[]))
        GROUP BY ALL HAVING sum(n) <> 0"""
    judge(f"children sum to parents in {table}", f"FROM cells_of_{table}", wrong)
SQL.execute(f"CREATE VIEW exact AS SELECT geocode, name, values FROM invariants WHERE {LEAF}")
if PUBLISHED != "estimates":
    blocks = parquet("spine/blocks")
    wrong = f"""SELECT block FROM {blocks} b FULL JOIN (FROM estimates WHERE {LEAF}) e ON e.geocode = b.path[-1]
        FULL JOIN (FROM {PUBLISHED} WHERE {CENSUS_LEAF}) c ON c.geocode = b.block
        WHERE e.cells IS NULL OR (e.cells, e.counts) IS DISTINCT FROM (c.cells, c.counts)"""
    judge("blocks of the spine and of the census", f"FROM {blocks}", wrong)
    SQL.execute(f"""CREATE OR REPLACE VIEW exact AS SELECT block AS geocode, name, values FROM invariants
        JOIN {blocks} ON geocode = path[-1] WHERE {LEAF}""")

# 3. What is exact is so in the estimates, their answers lie within bounds, and geounits were asked what was declared.
exact_at = LEDGER["invariants"]["total_at"]
if exact_at in LEVELS:
    wrong = f"""SELECT level, geocode FROM (
            SELECT level, geocode, 1 AS due FROM geounits WHERE depth <= {LEVELS.index(exact_at)} UNION ALL
            SELECT level, geocode, -1 FROM invariants WHERE name IN ('total', 'group_total'))
            GROUP BY ALL HAVING sum(due) <> 0
        UNION ALL SELECT level, geocode FROM invariants JOIN estimates USING (level, geocode)
            WHERE name = 'total' AND values <> [coalesce(list_sum(counts), 0)]"""
    judge("exact totals", "FROM invariants WHERE name IN ('total', 'group_total')", wrong)
bounded = {name for (name,) in SQL.execute("SELECT DISTINCT name FROM bounds").fetchall()}
for name, query in ((name, query) for name, query in BOUNDS.items() if name in bounded):
    answers = f"unnest(range({int(query['type'].split()[0])})) AS answer, unnest(lower) AS low, unnest(upper) AS high"
    limits = f"SELECT depth, geocode, {answers} FROM bounds WHERE name = '{name}'"
    wrong = f"""SELECT depth, geocode, answer FROM ({limits}) LEFT JOIN (
            SELECT depth, geocode, {answer_of(query)} AS answer, sum(n) AS n FROM cells_of_estimates GROUP BY ALL)
        USING (depth, geocode, answer)
        WHERE (coalesce(n, 0) BETWEEN low AND high) IS NOT TRUE"""
    judge(f"bounds of {name}", limits, wrong)
sizes = {column["name"]: int(column["type"].split()[0]) for column in DESCRIBED["(queries)"]["columns"]}
asked = [
    f"('{level['geolevel']}', '{query}', {sizes[query]})" for level in BUDGET["levels"] for query in level["queries"]
]
wrong = f"""SELECT m.level, geocode, m.query FROM measurements m
        LEFT JOIN (VALUES {", ".join(asked)}) a(level, query, size) ON (a.level, a.query) = (m.level, m.query)
    WHERE size IS NULL OR len(values) <> coalesce(len(rows), size)
        OR NOT variance > 0 OR list_max(rows) >= size OR rows <> list_sort(list_distinct(rows))
    UNION ALL SELECT level, geocode, query FROM measurements GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT level, geocode, query FROM measurements ANTI JOIN geounits USING (depth, geocode, parent)"""
judge("measurements", "FROM measurements", wrong)

# What children answered differs from what their parent did by noise alone, 50 standard deviations and people at most.
answers = "variance, unnest(values) AS value, unnest(coalesce(rows, range(len(values)))) AS answer"
children = f"SELECT depth - 1 AS depth, parent AS geocode, query, {answers} FROM measurements"
added = "depth, geocode, query, answer, sum(value) AS below, sum(variance) AS variance_below, count(*) AS children"
SQL.execute(f"""CREATE TEMP TABLE differences AS SELECT depth, geocode, query, answer, below - value AS difference,
    variance_below + variance AS variance FROM (SELECT depth, geocode, query, {answers} FROM measurements)
    JOIN (SELECT {added} FROM ({children}) GROUP BY ALL) USING (depth, geocode, query, answer)
    JOIN geounits USING (depth, geocode, children)""")
if SQL.execute("SELECT count(*) FROM differences").fetchall()[0][0]:
    wrong = "FROM differences WHERE abs(difference) > 50 * (sqrt(variance) + 1)"
    judge("differences of noise", "FROM differences", wrong)

# 4. Microdata: as many records of each combination of codes as the estimates of leaves say, in units that are exact.
kinds = {path.removeprefix("microdata/").split(".")[0] for path in DESCRIBED if path.startswith("microdata/")}
counted = next(iter(kinds - {"unit"}), "unit")  # units that people are assigned to have a file of their own
of_units, exact = counted in ("unit", "household"), "FROM exact WHERE name ="
classes = SQL.execute(f"SELECT coalesce(max(len(values)), 0) {exact} 'units'").fetchall()[0][0]
for form in OUTPUT["microdata"]:
    people, kind, number = Records(counted, form), "NULL", "NULL"
    people.check("record_number")
    records, class_of_cell = people.rows, "0" if of_units or "class" not in BOUNDS else answer_of(BOUNDS["class"])
    expected = [f"SELECT geocode, cell, {class_of_cell} AS kind, n FROM cells_of_{PUBLISHED} WHERE {CENSUS_LEAF}"]
    if of_units:  # units of other classes, and vacant ones, are listed without being counted
        expected.append(f"SELECT geocode, NULL, unnest(range(1, len(values))), unnest(values[2:]) {exact} 'units'")
        vacant = f"""SELECT geocode, values[1] AS n {exact} 'units' UNION ALL SELECT geocode, values[1] {exact} 'vacant'
            UNION ALL SELECT geocode, -list_sum(counts) FROM {PUBLISHED} WHERE {CENSUS_LEAF} AND {classes} > 0"""
        expected += [f"SELECT geocode, NULL, {classes}, sum(n) FROM ({vacant}) GROUP BY ALL"] * (counted == "household")
    elif "unit" in kinds:
        units, number = Records("unit", form), f"{people.number['person_number']}::BIGINT"
        units.check("unit_number")
        codes = ["|".join(texts) for texts in zip(*(column["texts"] for column in units.coded), strict=True)]
        SQL.execute(f"""CREATE OR REPLACE TEMP TABLE units AS SELECT {units.place} AS unit_place,
            {units.number["unit_number"]} AS unit, {units.number["population"]}::BIGINT AS population,
            list_position({codes}, {units.codes}) - 1 AS unit_kind FROM {units.rows}""")
        wrong = f"""SELECT place, kind, sum(n) AS difference FROM (
                SELECT unit_place AS place, unit_kind AS kind, -1 AS n FROM units
                UNION ALL SELECT {units.place_of_geocode}, unnest(range(len(values))), unnest(values) {exact} 'units'
                UNION ALL SELECT {units.place_of_geocode}, {len(codes) - 1}, values[1] {exact} 'vacant')
            GROUP BY ALL HAVING sum(n) <> 0"""
        judge(f"units of {units.name}", "FROM units", wrong)
        wrong = f"""FROM units FULL JOIN (SELECT {people.place} AS unit_place, {people.number["unit_number"]} AS unit,
                count(*) AS n, count(DISTINCT {number}) AS different, min({number}) AS least, max({number}) AS most
                FROM {people.rows} GROUP BY ALL) USING (unit_place, unit)
            WHERE population IS DISTINCT FROM coalesce(n, 0) OR (n > 0 AND (least, most, different) <> (1, n, n))"""
        judge(f"people in units of {units.name}", "FROM units", wrong)
        kind, records = "unit_kind", f"({records} p LEFT JOIN units ON unit = p.{people.number['unit_number']})"
    by_class = [column for column in people.coded if "by" not in column]
    if any("divided" in column for column in people.coded) or (
        counted == "household" and any(len(column["texts"]) > classes + 1 for column in by_class)
    ):
        say(f"records of {people.name}", "not looked at: counts that another run has published tell some apart", "-")
        continue
    wrong = f"""SELECT place, codes, kind, sum(n) AS difference FROM (
            SELECT {people.place_of_geocode} AS place, {people.codes_of_cell()} AS codes,
                {kind.removeprefix("unit_")} AS kind, n FROM ({" UNION ALL ".join(expected)}) WHERE n <> 0
            UNION ALL SELECT {people.place}, {people.codes}, {kind}, -1 FROM {records})
        GROUP BY ALL HAVING sum(n) <> 0"""
    judge(f"records of {people.name}", f"FROM {people.rows}", wrong)

# 5. Published tables: what the estimates of every geounit add up to.
for path in (path for path in DESCRIBED if path.startswith("tables/")):
    name, columns = path.removeprefix("tables/").split(".<")[0], DESCRIBED[path]["columns"][1:]
    if any("counts" not in column for column in columns):
        say(f"table {name}", "not looked at: it holds other things than sums of estimates", "-")
        continue
    sums = []
    for column in columns:
        each = [f"{selected(selection)}::BIGINT" for selection in column["counts"]]
        times = " + ".join(each) if "tallied" in column else f"greatest({', '.join(each)}, 0)"
        sums.append(f'coalesce(sum(n * ({times})), 0)::BIGINT AS "{column["name"]}"')
    types = {"geocode": "VARCHAR"} | {column["name"]: "BIGINT" for column in columns}
    quoted = ", ".join(f'"{column}"' for column in types)
    for form in OUTPUT["tables"]:
        found, known = [], []
        for depth, (level, described) in enumerate(CENSUS.items()):
            folder = f"tables/{name}.{form}/level={level}"
            if files(folder):
                options = f"columns = {types}, header = true, delim = ',', auto_detect = false"
                read = f"read_csv({files(folder)}, {options})" if form == "csv" else parquet(folder)
                found.append(f"SELECT {depth} AS depth, {quoted} FROM {read}")
                code = part_of_geocode(described["digits"]) if "digits" in described else "geocode"
                known.append(f"SELECT depth, geocode, {code} AS code FROM {PUBLISHED} WHERE depth = {depth}")
        SQL.execute(f"CREATE OR REPLACE TEMP TABLE found AS {' UNION ALL '.join(found)}")
        SQL.execute(f"""CREATE OR REPLACE TEMP TABLE due AS SELECT depth, code, {", ".join(sums)} FROM
            ({" UNION ALL ".join(known)}) LEFT JOIN cells_of_{PUBLISHED} USING (depth, geocode) GROUP BY depth, code""")
        number = f"(SELECT count(*) FROM found) <> {MANIFEST['rows'][f'tables/{name}.{form}']}"
        wrong = f"""SELECT depth, code FROM (
            (FROM due EXCEPT ALL FROM found) UNION ALL (FROM found EXCEPT ALL FROM due))
            UNION ALL SELECT NULL, 'another number of rows than in the manifest' WHERE {number}"""
        judge(f"table {name}.{form}", "FROM found", wrong)
sys.exit(1 if failed else 0)
