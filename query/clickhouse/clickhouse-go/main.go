// What an unmodified clickhouse-go, the client of Grafana's data source, may expect of Tapedeck over HTTP. Arguments: host:port, a key for the project with the views nodes,
// rewards, rollouts. Prints one line per check: its name, a tab, and "ok" or what went wrong. main.go opens connections, the checks are beside it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

type check struct {
	name string
	run  func(ctx context.Context, db *sql.DB) error
}

var address, password string

// With the options that Grafana's data source sets; edit changes some.
func open(edit func(*clickhouse.Options)) *sql.DB {
	options := &clickhouse.Options{
		Addr:        []string{address},
		Auth:        clickhouse.Auth{Database: "default", Username: "grafana", Password: password},
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionGZIP},
		DialTimeout: 30 * time.Second,
		HttpUrlPath: "/clickhouse/",
		Protocol:    clickhouse.HTTP,
		ReadTimeout: 240 * time.Second,
		Settings:    clickhouse.Settings{},
	}
	options.ClientInfo.Products = append(options.ClientInfo.Products, struct{ Name, Version string }{"grafana", "12.0.0"})
	if edit != nil {
		edit(options)
	}
	return clickhouse.OpenDB(options)
}

func is(what string, actual, expected any) error {
	if reflect.DeepEqual(actual, expected) {
		return nil
	}
	return fmt.Errorf("%s: expected %v, got %v", what, expected, actual)
}

// The first column of every row, as text.
func column(ctx context.Context, db *sql.DB, query string, arguments ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	found := []string{}
	for rows.Next() {
		cells := make([]any, len(names))
		for at := range cells {
			cells[at] = new(any)
		}
		if err := rows.Scan(cells...); err != nil {
			return nil, err
		}
		found = append(found, fmt.Sprint(*cells[0].(*any)))
	}
	return found, rows.Err()
}

func columnIs(ctx context.Context, db *sql.DB, expected []string, query string, arguments ...any) error {
	found, err := column(ctx, db, query, arguments...)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return is(query, found, expected)
}

// ClickHouse's number of the error that a query ends with.
func codeIs(ctx context.Context, db *sql.DB, code int32, query string) error {
	_, err := column(ctx, db, query)
	var exception *clickhouse.Exception
	if !errors.As(err, &exception) {
		return fmt.Errorf("%s: no exception but %v", query, err)
	}
	if exception.Code != code {
		return fmt.Errorf("%s: expected %d, got %w", query, code, err)
	}
	return nil
}

func main() {
	address, password = os.Args[1], os.Args[2]
	ctx := context.Background()
	db := open(nil)
	for _, each := range checks {
		outcome := "ok"
		if err := each.run(ctx, db); err != nil {
			outcome = strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Printf("%s\t%s\n", each.name, outcome)
	}
}
