"""What unmodified clickhouse-connect may expect of Tapedeck.

Arguments: host, port, password of a key for the project with the views nodes, rewards, rollouts. Prints one JSON line per check.
"""

import asyncio
import datetime
import json
import sys
import traceback

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

HOST, PORT, PASSWORD = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def connect(**more):
    given = {"password": PASSWORD, "proxy_path": "clickhouse", **more}
    return clickhouse_connect.get_client(host=HOST, port=PORT, username="anybody", **given)


def fails(code, work):
    try:
        work()
    except (DatabaseError, OperationalError) as error:
        assert f"code: {code}" in str(error) or f"Code: {code}" in str(error), error
        return
    raise AssertionError("no error")


@check
def connects_and_lists_the_views(client):
    assert client.ping() and client.server_version.split(".")[0].isdigit()
    assert [row[0] for row in client.query("SHOW TABLES").result_rows] == ["nodes", "rewards", "rollouts"]
    assert client.command("SELECT currentDatabase()") == "default"
    names = client.query("SELECT name FROM system.tables WHERE database = 'default' ORDER BY name").result_columns[0]
    assert list(names) == ["nodes", "rewards", "rollouts"], names
    assert [column.name for column in client.query("SELECT * FROM rollouts LIMIT 0").column_types] is not None
    described = client.query("DESCRIBE TABLE default.rollouts").result_rows
    assert described[3][:2] == ("step", "Nullable(UInt64)"), described


@check
def a_path_is_not_needed(client):
    with connect(proxy_path="") as other:
        assert other.query("SELECT count() FROM nodes").first_row == (24,)


@check
def values_keep_their_types(client):
    rows = client.query("SELECT rollout, step, reward FROM rollouts ORDER BY rollout").result_rows
    assert rows == [("r0", 0, 0.0), ("r1", 1, 0.5), ("r2", 2, None), ("r3", 3, 1.5)], rows
    first = client.query("SELECT token_ids, sampled, time FROM nodes ORDER BY time LIMIT 1").first_row
    assert list(first[0]) == [0, 1, 2, 3, 4] and first[1] is False and isinstance(first[2], datetime.datetime), first
    assert client.query("SELECT toUInt64(18446744073709551615)").first_row == (2**64 - 1,)


@check
def parameters_of_both_kinds(client):
    for value in ["a'b\t\\", "\\N", "", "{x:String}", "\U0001f642", "; DROP TABLE nodes"]:
        assert client.query("SELECT {x:String}", parameters={"x": value}).first_row == (value,), value
        assert client.query("SELECT %(x)s", parameters={"x": value}).first_row == (value,), value
    got = client.query("SELECT {l:Array(String)}, {n:Nullable(Int8)}", parameters={"l": ["q'1", "b"], "n": None}).first_row
    assert (list(got[0]), got[1]) == (["q'1", "b"], None), got


@check
def every_compression(client):
    for codec in (True, False, "lz4", "zstd", "gzip"):
        with connect(compress=codec) as other:
            rows = other.query("SELECT number FROM system.numbers LIMIT 100000").result_rows
            assert len(rows) == 100_000 and rows[-1] == (99_999,), codec


@check
def data_frames_arrow_and_streams(client):
    assert client.query_df("SELECT * FROM nodes").shape == (24, 14)
    assert client.query_arrow("SELECT * FROM nodes").num_rows == 24
    assert client.query_np("SELECT index FROM nodes").shape == (24, 1)
    with client.query_row_block_stream("SELECT number FROM system.numbers LIMIT 300000") as stream:
        assert sum(len(block) for block in stream) == 300_000
    assert client.raw_query("SELECT 1 AS a", fmt="CSVWithNames") == b'"a"\n1\n'
    assert client.raw_query("SELECT 1 AS a", fmt="Parquet")[:4] == b"PAR1"


@check
def settings(client):
    assert client.query("SELECT 1", settings={"max_threads": 2, "session_timezone": "UTC"}).first_row == (1,)
    fails(396, lambda: client.query("SELECT number FROM system.numbers LIMIT 1000", settings={"max_result_rows": 10}))
    fails(452, lambda: client.query("SELECT 1", settings={"allow_ddl": 1}))
    fails(164, lambda: client.command("SET readonly = 0"))


@check
def refusals_carry_their_code(client):
    fails(46, lambda: client.query("SELECT nofunction(1)"))
    fails(60, lambda: client.query("SELECT * FROM nowhere"))
    fails(62, lambda: client.query("SELECT (1"))
    fails(395, lambda: client.query("SELECT throwIf(1)"))
    fails(497, lambda: client.query("SELECT * FROM p_other.nodes"))
    fails(497, lambda: client.query("SELECT * FROM system.processes"))
    fails(164, lambda: client.command("DROP TABLE nodes"))
    fails(164, lambda: client.insert("nodes", [["x"]], column_names=["run"]))
    fails(516, lambda: connect(password="wrong"))
    fails(81, lambda: connect(database="other").query("SELECT 1"))


@check
def an_error_behind_the_first_rows_is_an_error(client):
    try:
        with client.query_rows_stream(
            "SELECT number, throwIf(number = 3000000) FROM system.numbers LIMIT 4000000", settings={"max_block_size": 10_000}
        ) as stream:
            for _ in stream:
                pass
    except Exception as error:  # the kind depends on where the driver notices
        assert "395" in str(error) or "FUNCTION_THROW" in str(error) or "throwIf" in str(error), error
        return
    raise AssertionError("no error")


@check
def many_at_once(client):
    async def work():
        other = await clickhouse_connect.get_async_client(
            host=HOST, port=PORT, username="anybody", password=PASSWORD, proxy_path="clickhouse", autogenerate_session_id=False
        )
        answers = await asyncio.gather(*(other.query(f"SELECT {n}, count() FROM nodes") for n in range(6)))
        assert [answer.first_row for answer in answers] == [(n, 24) for n in range(6)]
        await other.close()

    asyncio.run(work())


with connect() as shared:
    for each in CHECKS:
        problem = None
        try:
            each(shared)
        except Exception:
            problem = traceback.format_exc()
        print(json.dumps({"name": each.__name__.replace("_", " "), "error": problem}), flush=True)
