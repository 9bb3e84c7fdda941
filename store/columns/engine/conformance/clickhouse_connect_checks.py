"""What an unmodified clickhouse-connect may expect of a ClickHouse server.

Arguments: host, port, user, password, database (which exists). Prints one JSON line per check: {"name", "error"}; error is null when it passed.
"""

import asyncio
import datetime
import json
import sys
import traceback
import uuid

import clickhouse_connect
import pandas
import pyarrow
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from clickhouse_connect.driver.external import ExternalData

HOST, PORT, USER, PASSWORD, DATABASE = sys.argv[1:6]
CHECKS = []


def connect(**options):
    return clickhouse_connect.get_client(
        host=HOST, port=int(PORT), username=USER, password=PASSWORD, database=DATABASE, **options
    )


def check(function):
    CHECKS.append(function)
    return function


@check
def connects_and_reads_the_version(client):
    assert client.server_version.split(".")[0].isdigit()
    assert client.command("SELECT 1") == 1
    assert client.ping()


@check
def a_wrong_password_is_refused(client):
    try:
        clickhouse_connect.get_client(host=HOST, port=int(PORT), username=USER, password="wrong")
    except (DatabaseError, OperationalError) as error:
        assert "516" in str(error) or "194" in str(error), error
    else:
        raise AssertionError("no error")


@check
def rows_of_every_kind_survive(client):
    client.command(
        "CREATE TABLE kinds (i Int64, u UInt64, f Float64, s String, d DateTime64(6, 'UTC'), n Nullable(String),"
        " l Array(UInt32), m Map(String, UInt8), u8 UUID, lc LowCardinality(String)) ENGINE = MergeTree ORDER BY i"
    )
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    one = uuid.UUID("12345678-1234-5678-1234-567812345678")
    rows = [
        [-(2**62), 2**63 + 1, 0.1, "tab\t nul\0 quote' \U0001f642", when, None, [1, 2**32 - 1], {"a": 1}, one, "x"],
        [1, 0, float("-inf"), "", when, "", [], {}, one, "y"],
    ]
    client.insert("kinds", rows)
    back = client.query("SELECT * FROM kinds ORDER BY i").result_rows
    assert [list(row) for row in back] == rows, back


@check
def inserts_of_many_rows(client):
    client.command("CREATE TABLE many (a UInt64, s String) ENGINE = MergeTree ORDER BY a")
    rows = [[a, f"row {a}"] for a in range(200_000)]
    summary = client.insert("many", rows, column_names=["a", "s"])
    assert summary.written_rows == len(rows), summary.summary
    assert client.query("SELECT count(), sum(a), max(s) FROM many").first_row == (200_000, 19_999_900_000, "row 99999")


@check
def every_compression_both_ways(client):
    for codec in (True, False, "lz4", "zstd", "gzip"):
        with connect(compress=codec) as other:
            other.command("CREATE TABLE IF NOT EXISTS packed (a UInt32, s String) ENGINE = MergeTree ORDER BY a")
            other.command("TRUNCATE TABLE packed")
            other.insert("packed", [[a, "text" * 10] for a in range(30_000)], column_names=["a", "s"])
            rows = other.query("SELECT a, s FROM packed ORDER BY a").result_rows
            assert len(rows) == 30_000 and rows[-1] == (29_999, "text" * 10), codec


@check
def data_frames_and_arrow(client):
    frame = client.query_df("SELECT number AS n, toString(number) AS s FROM numbers(1000)")
    assert list(frame.columns) == ["n", "s"] and int(frame["n"].sum()) == 499_500
    table = client.query_arrow("SELECT number AS n, [number] AS l FROM numbers(1000)")
    assert isinstance(table, pyarrow.Table) and table.num_rows == 1000
    client.command("CREATE TABLE arrows (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
    client.insert_arrow("arrows", pyarrow.table({"n": pyarrow.array(range(500), pyarrow.uint64()), "s": ["x"] * 500}))
    client.insert_df("arrows", pandas.DataFrame({"n": range(500, 600), "s": ["y"] * 100}))
    assert client.query("SELECT count(), countIf(s = 'y') FROM arrows").first_row == (600, 100)
    assert client.query_np("SELECT number FROM numbers(10)").shape == (10, 1)


@check
def streams_of_blocks_and_rows(client):
    with client.query_row_block_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(len(block) for block in stream) == 300_000
    with client.query_rows_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(row[0] for row in stream) == 299_999 * 300_000 // 2
    raw = client.raw_query("SELECT 1 AS a, 'x' AS b", fmt="CSVWithNames")
    assert raw == b'"a","b"\n1,"x"\n', raw


@check
def an_error_behind_the_first_rows_is_an_error(client):
    try:
        with client.query_rows_stream(
            "SELECT throwIf(number = 3000000) FROM numbers(4000000)", settings={"max_block_size": 10_000}
        ) as stream:
            for _ in stream:
                pass
    except Exception as error:  # the kind depends on where the driver notices
        assert "395" in str(error) or "throwIf" in str(error) or "FUNCTION_THROW" in str(error), error
    else:
        raise AssertionError("no error")


@check
def parameters_and_settings(client):
    text = "quote ' back \\ tab \t line \n %s {x:Int8}"
    result = client.query(
        "SELECT {t:String} AS t, {l:Array(String)} AS l, {d:DateTime} AS d, {n:Nullable(String)} AS n",
        parameters={"t": text, "l": ["a'b", "c\\d"], "d": datetime.datetime(2026, 1, 2, 3, 4, 5), "n": None},
    )
    row = result.first_row
    assert row[0] == text and row[1] == ["a'b", "c\\d"] and row[3] is None, row
    assert client.query("SELECT %(t)s", parameters={"t": text}).first_row[0] == text
    value = "SELECT toString(getSetting('max_block_size'))"
    assert client.query(value, settings={"max_block_size": 777}).first_row[0] == "777"
    assert client.query(value).first_row[0] != "777"


@check
def errors_name_their_code(client):
    for sql, code in (("selec 1", "62"), ("SELECT * FROM nowhere", "60"), ("SELECT nobody", "47"), ("SELECT 1; SELECT 2", "62")):
        try:
            client.query(sql)
        except DatabaseError as error:
            assert code in str(error), error
        else:
            raise AssertionError(sql)
    try:
        client.query("SELECT 1", settings={"no_such_setting": 1})
    except Exception as error:
        assert "no_such_setting" in str(error), error


@check
def a_session_keeps_temporary_tables(client):
    with connect(session_id=str(uuid.uuid4())) as session:
        session.command("CREATE TEMPORARY TABLE mine (a UInt8)")
        session.command("INSERT INTO mine VALUES (5)")
        assert session.query("SELECT a FROM mine").first_row == (5,)
        for i in range(30):
            assert session.command(f"SELECT {i}") == i


@check
def external_data(client):
    data = ExternalData(file_name="ids.csv", fmt="CSV", structure=["id UInt32", "name String"], data=b"1,one\n3,three\n")
    rows = client.query("SELECT name FROM ids WHERE id > 1", external_data=data).result_rows
    assert rows == [("three",)], rows


@check
def tables_are_described(client):
    assert "many" in client.query("SHOW TABLES").result_columns[0]
    described = client.query("DESCRIBE TABLE many").result_rows
    assert [row[0] for row in described] == ["a", "s"]
    assert "CREATE TABLE" in client.command("SHOW CREATE TABLE many")


@check
def the_asynchronous_client_in_parallel(client):
    async def run():
        other = await clickhouse_connect.get_async_client(
            host=HOST, port=int(PORT), username=USER, password=PASSWORD, database=DATABASE, autogenerate_session_id=False
        )
        results = await asyncio.gather(*(other.query(f"SELECT {i}, sleep(0.1)") for i in range(6)))
        other.close() if not asyncio.iscoroutinefunction(other.close) else await other.close()
        return [result.first_row[0] for result in results]

    assert asyncio.run(run()) == list(range(6))


def main():
    with connect() as client:
        for function in CHECKS:
            error = None
            try:
                function(client)
            except Exception:
                error = traceback.format_exc()
            print(json.dumps({"name": function.__name__.replace("_", " "), "error": error}), flush=True)


main()
