#!/usr/bin/env python3
"""Writes the Iceberg table metadata that the import tests read.

The metadata is real: PyIceberg makes the tables, commit by commit, with a SQL catalog in memory and a warehouse in a
local directory. Only what `skadectl import` reads is kept, the table metadata files; manifests and data files go away
with the warehouse. Beside them the script writes what an import must find, by its own plain reading of the files.

Run it from the top of the repository, with a virtual environment that lies outside of it:

    python3 -m venv /tmp/skade-pyiceberg
    /tmp/skade-pyiceberg/bin/pip install 'pyiceberg[pyarrow,sql-sqlite]==0.12.0'
    /tmp/skade-pyiceberg/bin/python tests/data/make_iceberg.py OUTDIR

OUTDIR must be missing or empty. Schemas, rows, and the order and number of commits are the same in every run. Snapshot
ids, table and file uuids and times are not: PyIceberg draws them, and their being arbitrary is part of the test.

    OUTDIR/<namespace>.db/<table>/metadata/NNNNN-<uuid>[.gz].metadata.json
    OUTDIR/EXPECTED.tsv             table, metadata files, distinct snapshots, head of the newest file or -
    OUTDIR/EXPECTED_SNAPSHOTS.tsv   table, snapshot id, first file that contains it, its timestamp-ms
"""

import gzip
import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

PYICEBERG_VERSION = "0.12.0"

# Every metadata file names this path, so it must be one that tells nothing about the machine.
WAREHOUSE = Path("/tmp/skade-warehouse")

# A metadata file repeats the names of its predecessors, up to this many.
PREVIOUS_VERSIONS = "5"

# A metadata file also holds every snapshot that hasn't expired, so n commits without expiry cost n * n / 2 snapshots.
ORDERS_APPENDS = 300
ORDERS_EXPIRE_EVERY = 50
ORDERS_KEEP = 10


def main(argv):
    if len(argv) != 2:
        sys.exit("usage: make_iceberg.py OUTDIR")
    if pyiceberg.__version__ != PYICEBERG_VERSION:
        sys.exit(f"make_iceberg.py: made for PyIceberg {PYICEBERG_VERSION}, found {pyiceberg.__version__}")
    outdir = Path(argv[1])
    if outdir.exists() and any(outdir.iterdir()):
        sys.exit(f"make_iceberg.py: {outdir} is not empty; remove it or name another")
    try:
        WAREHOUSE.mkdir()
    except FileExistsError:
        sys.exit(f"make_iceberg.py: {WAREHOUSE} exists; if no other run is using it, remove it")

    try:
        tables = make_tables()
        copy_metadata(tables, outdir)
    finally:
        shutil.rmtree(WAREHOUSE)
    write_expectations(tables, outdir)


# ---------------------------------------------------------------- the tables


def make_tables():
    """Makes all tables and returns them, newest state, by name."""
    name_compressed_metadata()
    catalog = SqlCatalog("skade", uri="sqlite:///:memory:", warehouse=f"file://{WAREHOUSE}")
    for namespace in ("shop", "ops"):
        catalog.create_namespace(namespace)
    return {
        "shop.orders": make_orders(catalog),
        "shop.customers": make_customers(catalog),
        "ops.events_v1": make_events_v1(catalog),
        "ops.empty": make_empty(catalog),
    }


def make_orders(catalog):
    """A long history, compressed: most of its snapshots have expired from the newest file, but not from older ones."""
    table = create(catalog, "shop.orders", orders_schema(), {"write.metadata.compression-codec": "gzip"})
    for n in range(1, ORDERS_APPENDS + 1):
        append(table, order(n, with_note=n > 150))
        if n == 60:
            tag(table, "first-sixty")
        if n == 110:
            branch(table, "audit")
            append(table, order(1_000_110), branch="audit")
        if n == 150:
            add_column(table, "note", StringType())
        if n == 220:
            roll_back(table, steps=3)
        if n % ORDERS_EXPIRE_EVERY == 0:
            expire_all_but_newest(table, ORDERS_KEEP)
    return table


def make_customers(catalog):
    """Every kind of commit that is not just one more append, in plain JSON."""
    table = create(catalog, "shop.customers", customers_schema())
    for n in range(1, 9):
        append(table, customer(n))
    add_column(table, "email", StringType())
    for n in range(9, 13):
        append(table, customer(n, with_email=True))
    set_properties(table, {"comment": "one row per customer"})
    tag(table, "spring")
    for n in range(13, 16):
        append(table, customer(n, with_email=True))
    branch(table, "cleanup")
    append(table, customer(1_000_015, with_email=True), branch="cleanup")
    append(table, customer(16, with_email=True))
    overwrite(table, customer(17, with_email=True))
    append(table, customer(18, with_email=True))
    # The last commit goes back, so the head of the newest file is not the newest snapshot.
    roll_back(table, steps=1)
    return table


def make_events_v1(catalog):
    """Format version 1, where snapshots have no sequence numbers, then version 2 around the same snapshots."""
    table = create(catalog, "ops.events_v1", events_schema(), {"format-version": "1"})
    for n in range(1, 11):
        append(table, event(n))
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    return table


def make_empty(catalog):
    """Created and never written: one file, no snapshot, no head."""
    return create(catalog, "ops.empty", events_schema())


# ---------------------------------------------------------------- schemas and rows


def orders_schema():
    return Schema(
        NestedField(1, "order_id", LongType()),
        NestedField(2, "item", StringType()),
        NestedField(3, "amount", DoubleType()),
    )


def order(n, with_note=False):
    row = {"order_id": n, "item": f"item-{n % 17}", "amount": n * 0.25}
    return {**row, "note": f"note {n}"} if with_note else row


def customers_schema():
    return Schema(
        NestedField(1, "customer_id", LongType()),
        NestedField(2, "name", StringType()),
    )


def customer(n, with_email=False):
    row = {"customer_id": n, "name": f"customer {n}"}
    return {**row, "email": f"customer{n}@example.com"} if with_email else row


def events_schema():
    return Schema(
        NestedField(1, "event_id", LongType()),
        NestedField(2, "kind", StringType()),
    )


def event(n):
    return {"event_id": n, "kind": ("start", "stop", "fault")[n % 3]}


# ---------------------------------------------------------------- commits; each writes one metadata file


def create(catalog, name, schema, properties=()):
    """The location is spelled out for its `.db`: PyIceberg's SQL catalog would leave it out, others don't."""
    namespace, table = name.split(".")
    return catalog.create_table(
        name,
        schema,
        location=f"file://{WAREHOUSE}/{namespace}.db/{table}",
        properties={"write.metadata.previous-versions-max": PREVIOUS_VERSIONS, **dict(properties)},
    )


def append(table, row, branch="main"):
    table.append(one_row(table, row), branch=branch)


def overwrite(table, row):
    """PyIceberg commits this as a delete and an append: one metadata file, two new snapshots."""
    table.overwrite(one_row(table, row))


def one_row(table, row):
    return pa.Table.from_pylist([row], schema=table.schema().as_arrow())


def add_column(table, name, kind):
    with table.update_schema() as update:
        update.add_column(name, kind)


def set_properties(table, properties):
    with table.transaction() as transaction:
        transaction.set_properties(properties)


def tag(table, name):
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, name).commit()


def branch(table, name):
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, name).commit()


def roll_back(table, steps):
    """Makes the ancestor that lies this many steps back the head again. No snapshot is added or removed."""
    snapshot = table.current_snapshot()
    for _ in range(steps):
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id)
    table.manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()


def expire_all_but_newest(table, count):
    """Heads of branches and tagged snapshots stay too, as Iceberg demands."""
    referenced = {ref.snapshot_id for ref in table.refs().values()}
    older = {snapshot.snapshot_id for snapshot in table.snapshots()[:-count]}
    table.maintenance.expire_snapshots().by_ids(sorted(older - referenced)).commit()


# ---------------------------------------------------------------- the files


def name_compressed_metadata():
    """Lets PyIceberg write gzip.

    It compresses a metadata file whose name ends in .gz.metadata.json, but never picks such a name itself and ignores
    the table property that asks for one. Iceberg's Java implementation honours it, with the names made here.
    Compressing the finished files instead would leave names in `metadata-log` that no file has.
    """
    plain_location = LocationProvider.new_table_metadata_file_location

    def location(self, new_version=0):
        plain = plain_location(self, new_version)
        if self.table_properties.get("write.metadata.compression-codec") != "gzip":
            return plain
        return plain.removesuffix(".metadata.json") + ".gz.metadata.json"

    LocationProvider.new_table_metadata_file_location = location


def metadata_dir(root, name):
    namespace, table = name.split(".")
    return root / f"{namespace}.db" / table / "metadata"


def copy_metadata(tables, outdir):
    """Keeps the metadata files and, for one table, a hint in the form that PyIceberg reads: the newest file's name."""
    for name in tables:
        target = metadata_dir(outdir, name)
        target.mkdir(parents=True)
        for file in metadata_dir(WAREHOUSE, name).glob("*.metadata.json"):
            shutil.copyfile(file, target / file.name)
    newest = Path(tables["shop.customers"].metadata_location).name
    (metadata_dir(outdir, "shop.customers") / "version-hint.text").write_text(newest)


# ---------------------------------------------------------------- what an import must find


def write_expectations(tables, outdir):
    """Reads the copied files as bytes and JSON. PyIceberg's own view serves as a check only."""
    table_lines = []
    snapshot_lines = []
    for name in sorted(tables):
        files = sorted(metadata_dir(outdir, name).glob("*.metadata.json"), key=version)
        if [version(file) for file in files] != list(range(len(files))):
            sys.exit(f"make_iceberg.py: {name}: the versions of the metadata files have holes or repeat")
        head = head_of(read_metadata(files[-1]))
        if head != head_according_to_pyiceberg(tables[name]):
            sys.exit(f"make_iceberg.py: {name}: PyIceberg has another head than the newest file")
        first_seen = first_seen_snapshots(files)
        table_lines.append((name, len(files), len(first_seen), head))
        snapshot_lines += [(name, snapshot, file, time) for snapshot, (file, time) in first_seen.items()]
    write_tsv(outdir / "EXPECTED.tsv", table_lines)
    write_tsv(outdir / "EXPECTED_SNAPSHOTS.tsv", snapshot_lines)


def first_seen_snapshots(files):
    """{snapshot id: (name of the first file that contains it, its time)}, in the order of the files and within them."""
    first_seen = {}
    for file in files:
        for snapshot in read_metadata(file).get("snapshots", []):
            first_seen.setdefault(snapshot["snapshot-id"], (file.name, snapshot["timestamp-ms"]))
    return first_seen


def head_of(metadata):
    """A table without a head says so in three ways: nothing, null, or -1."""
    head = metadata.get("current-snapshot-id")
    return "-" if head is None or head == -1 else head


def head_according_to_pyiceberg(table):
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else "-"


def read_metadata(file):
    data = file.read_bytes()
    return json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)


def version(file):
    return int(file.name.split("-", 1)[0])


def write_tsv(path, lines):
    path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv)
