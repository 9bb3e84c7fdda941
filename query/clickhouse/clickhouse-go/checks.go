package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

var checks = []check{
	{"connects, and asks for the version", connects},
	{"every compression", everyCompression},
	{"lists databases, tables and columns as Grafana does", lists},
	{"panels over a range of time", panels},
	{"typed parameters", parameters},
	{"arguments that the client writes into the text", arguments},
	{"arrays, NULLs and other types", types},
	{"half a million rows", manyRows},
	{"settings of the data source", settings},
	{"several queries at once", atOnce},
	{"refusals and errors carry their code", refusals},
	{"an error behind the first rows is not the end of the rows", lateError},
	{"cancel, and a deadline", cancels},
	{"a wrong key", wrongKey},
}

func connects(ctx context.Context, db *sql.DB) error {
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	version, err := column(ctx, db, "SELECT version()")
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(version[0], "%d.%d.", &major, &minor); err != nil || major < 26 {
		return fmt.Errorf("version %v", version)
	}
	return nil
}

func everyCompression(ctx context.Context, _ *sql.DB) error {
	for _, method := range []clickhouse.CompressionMethod{
		clickhouse.CompressionNone, clickhouse.CompressionLZ4, clickhouse.CompressionZSTD, clickhouse.CompressionGZIP, clickhouse.CompressionDeflate, clickhouse.CompressionBrotli,
	} {
		db := open(func(options *clickhouse.Options) { options.Compression = &clickhouse.Compression{Method: method} })
		err := columnIs(ctx, db, []string{"24"}, "SELECT count() FROM nodes")
		if err == nil {
			err = columnIs(ctx, db, []string{"100000"}, "SELECT count() FROM (SELECT arrayJoin(range(100000)) AS n)")
		}
		db.Close()
		if err != nil {
			return fmt.Errorf("%v: %w", method, err)
		}
	}
	return nil
}

func lists(ctx context.Context, db *sql.DB) error {
	views := []string{"nodes", "rewards", "rollouts"}
	columns := []string{"project", "run", "rollout", "step", "reward"}
	functions, err := column(ctx, db, "SELECT name, is_aggregate, case_insensitive, alias_to, origin, description, syntax, arguments, returned_value, examples, categories FROM system.functions LIMIT 10000")
	if err == nil && len(functions) < 500 {
		err = fmt.Errorf("%d functions", len(functions))
	}
	return errors.Join(
		err,
		columnIs(ctx, db, []string{"default"}, "SHOW DATABASES"),
		columnIs(ctx, db, views, `SHOW TABLES FROM "default"`),
		columnIs(ctx, db, views, "SHOW TABLES"),
		columnIs(ctx, db, columns, `DESC TABLE "default"."rollouts"`),
		columnIs(ctx, db, columns, `DESCRIBE TABLE "rollouts"`),
		columnIs(ctx, db, []string{"default"}, "SELECT currentDatabase()"),
		columnIs(ctx, db, views, "SELECT name, database FROM system.tables ORDER BY database, name"),
		columnIs(ctx, db, columns, "SELECT name, type, table FROM system.columns WHERE database IN ('default') AND table = 'rollouts'"),
		columnIs(ctx, db, columns, "SELECT name, database, table, type, comment FROM system.columns WHERE (database, table) IN (('default', 'rollouts')) ORDER BY database, table, position"),
		columnIs(ctx, db, columns, "SELECT name FROM system.columns WHERE (database = currentDatabase() AND table IN ('rollouts')) ORDER BY database, table, position"),
		columnIs(ctx, db, []string{"run-1"}, "select distinct run from default.nodes limit 1000"),
		columnIs(ctx, db, []string{"run-1"}, `SELECT DISTINCT "run" FROM "default"."nodes" LIMIT 1000 SETTINGS max_execution_time=10`),
	)
}

// The macros of the data source, written out: the fixture's nodes are one second apart from the beginning of 2026 on.
func panels(ctx context.Context, db *sql.DB) error {
	from := time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC)
	to := from.Add(10 * time.Second)
	seconds := fmt.Sprintf("time >= toDateTime(%d) AND time <= toDateTime(%d)", from.Unix(), to.Unix())
	millis := fmt.Sprintf("time >= fromUnixTimestamp64Milli(%d) AND time <= fromUnixTimestamp64Milli(%d)", from.UnixMilli(), to.UnixMilli())
	queries := []string{
		"SELECT toStartOfInterval(toDateTime(time), INTERVAL 4 second) AS at, count() AS n FROM nodes WHERE " + seconds + " GROUP BY at ORDER BY at",
		"SELECT toStartOfInterval(toDateTime64(time, 3), INTERVAL 4000 millisecond) AS at, count() AS n FROM \"default\".\"nodes\" WHERE " + millis + " GROUP BY at ORDER BY at LIMIT 1000",
	}
	for _, query := range queries {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		got := []string{}
		for rows.Next() {
			var at time.Time
			var count uint64
			if err := rows.Scan(&at, &count); err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%s=%d", at.UTC().Format("05"), count))
		}
		if err := errors.Join(rows.Err(), rows.Close(), is(query, got, []string{"04=3", "08=4", "12=4"})); err != nil {
			return err
		}
	}
	zone, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		return err
	}
	located := clickhouse.Context(ctx, clickhouse.WithUserLocation(zone))
	var at time.Time
	if err := db.QueryRowContext(located, "SELECT min(time) FROM nodes").Scan(&at); err != nil {
		return err
	}
	return is("the first node", at.UTC(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

func parameters(ctx context.Context, db *sql.DB) error {
	odd := "it's; \\ \"odd\" \t\n DROP 🙂"
	given := clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"run": "run-1", "most": "3"}))
	return errors.Join(
		columnIs(given, db, []string{"9"}, "SELECT count() FROM nodes WHERE run = {run:String} AND index < {most:UInt32}"),
		columnIs(ctx, db, []string{"9"}, "SELECT count() FROM nodes WHERE run = {run:String} AND index < {most:UInt32}", clickhouse.Named("run", "run-1"), clickhouse.Named("most", 3)),
		columnIs(ctx, db, []string{odd}, "SELECT {text:String}", clickhouse.Named("text", odd)),
		columnIs(ctx, db, []string{"8"}, "SELECT count() FROM nodes WHERE rollout IN {rollouts:Array(String)}", clickhouse.Named("rollouts", []string{"r0", "it's"})),
		columnIs(ctx, db, []string{"1"}, "SELECT {nothing:Nullable(String)} IS NULL", clickhouse.Named("nothing", nil)),
		codeIs(ctx, db, 456, "SELECT {missing:UInt8}"),
	)
}

func arguments(ctx context.Context, db *sql.DB) error {
	odd := "it's; \\ DROP"
	return errors.Join(
		columnIs(ctx, db, []string{"9"}, "SELECT count() FROM nodes WHERE run = ? AND index < ?", "run-1", 3),
		columnIs(ctx, db, []string{"9"}, "SELECT count() FROM nodes WHERE run = $1 AND index < $2", "run-1", 3),
		columnIs(ctx, db, []string{"9"}, "SELECT count() FROM nodes WHERE run = @run AND index < @most", clickhouse.Named("run", "run-1"), clickhouse.Named("most", 3)),
		columnIs(ctx, db, []string{odd}, "SELECT ?", odd),
		columnIs(ctx, db, []string{"8"}, "SELECT count() FROM nodes WHERE rollout IN (?)", []string{"r0", "x"}),
		columnIs(ctx, db, []string{"3"}, "SELECT count() FROM nodes WHERE time < ?", time.Date(2026, 1, 1, 0, 0, 3, 0, time.UTC)),
	)
}

func types(ctx context.Context, db *sql.DB) error {
	var ids []uint32
	var logprobs []float32
	var parent *uint32
	query := "SELECT token_ids, logprobs, parent FROM nodes WHERE length(logprobs) > 0 ORDER BY rollout, trace, index LIMIT 1"
	if err := db.QueryRowContext(ctx, query).Scan(&ids, &logprobs, &parent); err != nil {
		return err
	}
	if !math.IsNaN(float64(logprobs[2])) {
		return fmt.Errorf("logprobs %v", logprobs)
	}
	first := errors.Join(is("ids", ids, []uint32{0, 1, 2, 3, 4}), is("logprobs", logprobs[:2], []float32{-0.5, -1.5}), is("parent", *parent, uint32(1)))
	var rewards []string
	rows, err := db.QueryContext(ctx, "SELECT reward FROM rollouts ORDER BY rollout")
	if err != nil {
		return err
	}
	for rows.Next() {
		var reward sql.NullFloat64
		if err := rows.Scan(&reward); err != nil {
			return err
		}
		rewards = append(rewards, fmt.Sprint(reward.Float64, reward.Valid))
	}
	first = errors.Join(first, rows.Err(), is("rewards", rewards, []string{"0 true", "0.5 true", "0 false", "1.5 true"}))
	var big uint64
	var text, low, uuid, enum string
	var day, moment time.Time
	var yes bool
	var pairs map[string]uint8
	var nested [][]*string
	odd := "SELECT toUInt64(18446744073709551615), 'q\\'uote \\0 🙂', toLowCardinality('low'), toUUID('0198c0de-0000-7000-8000-000000000001'), CAST('b', 'Enum8(\\'a\\' = 1, \\'b\\' = 2)'), " +
		"toDate('2026-01-02'), toDateTime64('2026-01-02 03:04:05.678901', 6, 'UTC'), true, map('one', toUInt8(1)), [['x', NULL], []]"
	if err := db.QueryRowContext(ctx, odd).Scan(&big, &text, &low, &uuid, &enum, &day, &moment, &yes, &pairs, &nested); err != nil {
		return err
	}
	return errors.Join(
		first,
		is("big", big, uint64(math.MaxUint64)),
		is("text", text, "q'uote \x00 🙂"),
		is("texts", []string{low, uuid, enum}, []string{"low", "0198c0de-0000-7000-8000-000000000001", "b"}),
		is("day", day.Format(time.DateOnly), "2026-01-02"),
		is("moment", moment.UTC(), time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)),
		is("yes", yes, true),
		is("pairs", pairs, map[string]uint8{"one": 1}),
		is("nested", []int{len(nested), len(nested[0]), len(nested[1])}, []int{2, 2, 0}),
		is("nested NULL", nested[0][1] == nil && *nested[0][0] == "x", true),
	)
}

func manyRows(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT number, toString(number) FROM system.numbers LIMIT 500000")
	if err != nil {
		return err
	}
	defer rows.Close()
	count, sum := 0, uint64(0)
	for rows.Next() {
		var number uint64
		var text string
		if err := rows.Scan(&number, &text); err != nil {
			return err
		}
		count++
		sum += number
	}
	return errors.Join(rows.Err(), is("count", count, 500000), is("sum", sum, uint64(499999*250000)))
}

func settings(ctx context.Context, _ *sql.DB) error {
	limited := open(func(options *clickhouse.Options) {
		options.Settings = clickhouse.Settings{"limit": 2, "max_execution_time": 20, "wait_end_of_query": 1}
	})
	defer limited.Close()
	refused := open(func(options *clickhouse.Options) {
		options.Settings = clickhouse.Settings{"additional_table_filters": "{'nodes': '1'}"}
	})
	defer refused.Close()
	return errors.Join(
		columnIs(ctx, limited, []string{"r0", "r1"}, "SELECT rollout FROM rollouts ORDER BY rollout"),
		codeIs(ctx, refused, 452, "SELECT 1"),
	)
}

func atOnce(ctx context.Context, db *sql.DB) error {
	problems := make([]error, 4)
	var all sync.WaitGroup
	for at := range problems {
		all.Go(func() {
			problems[at] = columnIs(ctx, db, []string{fmt.Sprint(24 + at)}, fmt.Sprintf("SELECT count() + %d FROM nodes", at))
		})
	}
	all.Wait()
	return errors.Join(problems...)
}

func refusals(ctx context.Context, db *sql.DB) error {
	insert := func() error {
		_, err := db.ExecContext(ctx, "INSERT INTO nodes (run) VALUES ('x')")
		var exception *clickhouse.Exception
		if errors.As(err, &exception) && exception.Code == 164 {
			return nil
		}
		return fmt.Errorf("an insert: %v", err)
	}
	return errors.Join(
		codeIs(ctx, db, 46, "SELECT nofunction(1)"),
		codeIs(ctx, db, 60, "SELECT * FROM nowhere"),
		codeIs(ctx, db, 47, "SELECT nobody FROM nodes"),
		codeIs(ctx, db, 395, "SELECT throwIf(1)"),
		codeIs(ctx, db, 62, "SELECT (1"),
		codeIs(ctx, db, 497, "SELECT * FROM p_other.nodes"),
		codeIs(ctx, db, 497, "SELECT * FROM system.processes"),
		codeIs(ctx, db, 81, "SHOW TABLES FROM other"),
		codeIs(ctx, db, 164, "DROP TABLE nodes"),
		insert(),
	)
}

func lateError(ctx context.Context, db *sql.DB) error {
	return codeIs(ctx, db, 395, "SELECT number, throwIf(number = 3000000) FROM system.numbers LIMIT 4000000 SETTINGS max_block_size = 10000")
}

const endless = "SELECT count() FROM nodes AS a, nodes AS b, nodes AS c, nodes AS d, nodes AS e, nodes AS f, nodes AS g, nodes AS h"

func cancels(ctx context.Context, db *sql.DB) error {
	cancelled, cancel := context.WithCancel(clickhouse.Context(ctx, clickhouse.WithQueryID("cancelled-by-go")))
	timer := time.AfterFunc(1500*time.Millisecond, cancel)
	defer timer.Stop()
	if _, err := column(cancelled, db, endless); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("not cancelled: %v", err)
	}
	deadline, stop := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer stop()
	if _, err := column(deadline, db, endless); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no deadline: %v", err)
	}
	// the id is free again once the first query has ended on the server
	for range 600 {
		again := clickhouse.Context(ctx, clickhouse.WithQueryID("cancelled-by-go"))
		err := columnIs(again, db, []string{"1"}, "SELECT 1")
		var exception *clickhouse.Exception
		if !errors.As(err, &exception) || exception.Code != 216 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the cancelled query still runs")
}

func wrongKey(ctx context.Context, _ *sql.DB) error {
	stranger := open(func(options *clickhouse.Options) { options.Auth.Password = "wrong" })
	defer stranger.Close()
	return codeIs(ctx, stranger, 516, "SELECT 1")
}
