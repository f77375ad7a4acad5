"""The persons of the 2018 End-to-End census test (Providence, Rhode Island): redistricting data by block.

Facts from the public release of the test's system: attributes, constraints, budget and record layout.
"""

from __future__ import annotations

from typing import Final

from das_spark.constraints import UnitBounds
from das_spark.histogram import Schema
from das_spark.products._redistricting import (
    BLOCK_COLUMNS,
    FACILITIES,
    NO_MINORS_IN_NURSING,
    PERSON_ATTRIBUTES,
    PERSON_FILES,
    RACE_CODES,
    STATE_TO_BLOCK,
    STRATA,
)
from das_spark.products.base import (
    PERSON_FILLERS,
    UNIT_FILLERS,
    MicrodataColumn,
    MicrodataLayout,
    Product,
    by_name,
    fillers,
    pure_strategy,
)
from das_spark.tabulation import redistricting_tables

MICRODATA: Final = MicrodataLayout(
    name="e2e_2018",
    person=(
        MicrodataColumn("SCHEMA_TYPE_CODE", "constant:MPD", "CHAR5"),
        MicrodataColumn("SCHEMA_BUILD_ID", "constant:3.1.4", "CHAR5"),
        *BLOCK_COLUMNS,
        MicrodataColumn("EUID", "unit_number", "INT9"),
        MicrodataColumn("EPNUM", "person_number", "INT5"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("QREL", "constant:99", "CHAR2"),
        MicrodataColumn("QSEX", "constant:9", "CHAR1"),
        MicrodataColumn("QAGE", "recode:votingage:17,18", "INT3"),
        MicrodataColumn("CENHISP", "recode:hispanic:1,2", "CHAR1"),
        MicrodataColumn("CENRACE", f"recode:cenrace:{RACE_CODES}", "CHAR2"),
        *fillers(PERSON_FILLERS),
    ),
    unit=(
        MicrodataColumn("SCHEMA_TYPE_CODE", "constant:MUD", "CHAR5"),
        MicrodataColumn("SCHEMA_BUILD_ID", "constant:3.1.4", "CHAR5"),
        *BLOCK_COLUMNS,
        MicrodataColumn("EUID", "unit_number", "INT9"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("GQTYPE", "recode:unit_class:000,101,201,301,401,501,601,701,000", "CHAR3"),
        MicrodataColumn("TEN", "tenure", "CHAR1"),
        MicrodataColumn("VACS", "vacancy", "CHAR1"),
        MicrodataColumn("FINAL_POP", "population", "INT5"),
        *fillers(UNIT_FILLERS),
    ),
)

SCHEMA: Final = Schema("e2e_2018_person", PERSON_ATTRIBUTES)

E2E_2018: Final = Product(
    name="e2e_2018",
    title="Persons of the 2018 End-to-End census test",
    schema=SCHEMA,
    geolevels=STATE_TO_BLOCK,
    default_levels=("County", "Tract", "Block_Group", "Block"),
    unit_classes=("Occupied housing unit", *FACILITIES),
    class_query="hhgq",
    strata=STRATA,
    unit_bounds=UnitBounds(least=(1,) * 8, most=(99, *(99_999,) * 7), cap_when_total_known=False),
    structural_zeros=(NO_MINORS_IN_NURSING,),
    strategies=by_name(
        [
            pure_strategy(
                "e2e_2018",
                "The budget of the 2018 End-to-End test",
                epsilon="2499/10000",
                geolevels={"County": "1/4", "Tract": "1/4", "Block_Group": "1/4", "Block": "1/4"},
                queries={"hhgq": "9/40", STRATA: "27/40", "detailed": "1/10"},
            )
        ]
    ),
    microdata=MICRODATA,
    total_at="County",
    tables=redistricting_tables(SCHEMA),
    file_recodes=PERSON_FILES,
)
