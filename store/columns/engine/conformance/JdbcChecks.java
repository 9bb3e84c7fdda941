import java.sql.*;
import java.util.*;

/**
 * What an unmodified ClickHouse JDBC driver may expect. Arguments: what answers ("server": a ClickHouse server with a database to write into; "views": the interface of Tapedeck to
 * a project with the views nodes, rewards, rollouts), host:port/database, user, password. Prints one line per check: its name, a tab, and "ok" or what went wrong.
 */
public class JdbcChecks {
  static String address;
  static String user;
  static String password;

  interface Check {
    void run(Connection connection) throws Exception;
  }

  static Connection connect(String options) throws SQLException {
    Properties properties = new Properties();
    properties.setProperty("user", user);
    properties.setProperty("password", password);
    return DriverManager.getConnection("jdbc:clickhouse://" + address + options, properties);
  }

  static void that(boolean holds, Object said) {
    if (!holds) throw new AssertionError(String.valueOf(said));
  }

  static void is(Object expected, Object actual) {
    that(Objects.equals(expected, actual), "expected " + expected + ", got " + actual);
  }

  static List<String> column(ResultSet rows, String name) throws SQLException {
    List<String> values = new ArrayList<>();
    try (rows) {
      while (rows.next()) values.add(rows.getString(name));
    }
    return values;
  }

  /** The first column of all rows. */
  static List<String> ask(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      ResultSet rows = statement.executeQuery(sql);
      return column(rows, rows.getMetaData().getColumnName(1));
    }
  }

  static void run(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute(sql);
    }
  }

  /** The error that a query ends with. */
  static SQLException failure(Connection connection, String sql) {
    try {
      ask(connection, sql);
    } catch (SQLException error) {
      return error;
    }
    throw new AssertionError("no error: " + sql);
  }

  static void codeIs(int code, Connection connection, String sql) {
    // The driver leaves getErrorCode() at 0 and keeps the code in its cause.
    is(code, ((com.clickhouse.client.api.ServerException) failure(connection, sql).getCause()).getCode());
  }

  static final Map<String, Check> COMMON = new LinkedHashMap<>();
  static final Map<String, Check> SERVER = new LinkedHashMap<>();
  static final Map<String, Check> VIEWS = new LinkedHashMap<>();

  static {
    COMMON.put("connects and reads the version", connection -> {
      that(connection.isValid(10), "not valid");
      that(connection.getMetaData().getDatabaseProductVersion().matches("\\d+\\..*"), "no version");
    });
    COMMON.put("with and without compression", connection -> {
      for (String options : new String[] {"", "?compress=false", "?client.use_http_compression=true"}) {
        try (Connection other = connect(options)) {
          is(List.of("7"), ask(other, "SELECT 7 AS n"));
          is(200000, ask(other, "SELECT number FROM system.numbers LIMIT 200000").size());
        }
      }
    });
    COMMON.put("values of many types", connection -> {
      String sql = "SELECT toInt64(-5) AS i, toFloat64(0.5) AS f, 'q\\'uote' AS s, CAST(NULL, 'Nullable(String)') AS n, toDate('2026-01-02') AS d, [1, 2] AS l";
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
        that(rows.next(), "no row");
        is(-5L, rows.getLong("i"));
        is(0.5, rows.getDouble("f"));
        is("q'uote", rows.getString("s"));
        is(null, rows.getString("n"));
        that(rows.wasNull(), "was null");
        is("2026-01-02", rows.getDate("d").toString());
        that(!rows.next(), "one row");
      }
    });
    COMMON.put("half a million rows", connection -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT number, toString(number) AS t FROM system.numbers LIMIT 500000")) {
        long sum = 0;
        int count = 0;
        while (rows.next()) {
          sum += rows.getLong(1);
          count++;
        }
        is(500000, count);
        is(499999L * 250000, sum);
      }
    });
    COMMON.put("the first ten of many rows, with a time limit", connection -> {
      try (Statement statement = connection.createStatement()) {
        statement.setMaxRows(10);
        statement.setQueryTimeout(30);
        is(10, column(statement.executeQuery("SELECT number FROM system.numbers LIMIT 1000"), "number").size());
      }
    });
    COMMON.put("errors carry their code", connection -> {
      codeIs(46, connection, "SELECT nofunction(1)");
      codeIs(60, connection, "SELECT * FROM nowhere");
      codeIs(47, connection, "SELECT nobody FROM system.one");
      codeIs(395, connection, "SELECT throwIf(1)");
    });
    COMMON.put("an error behind the first rows is not the end of the rows", connection ->
        failure(connection, "SELECT number, throwIf(number = 3000000) FROM system.numbers LIMIT 4000000 SETTINGS max_block_size = 10000"));
    COMMON.put("cancel from another thread", connection -> {
      try (Statement statement = connection.createStatement()) {
        Thread canceller = new Thread(() -> {
          try {
            Thread.sleep(1500);
            statement.cancel();
          } catch (Exception ignored) {
            // The check below fails when nothing was cancelled.
          }
        });
        canceller.start();
        long started = System.nanoTime();
        try {
          statement.executeQuery("SELECT sum(cityHash64(repeat(toString(number), 1000))) FROM system.numbers LIMIT 1000000000");
          throw new AssertionError("no error");
        } catch (SQLException expected) {
          that(String.valueOf(expected.getCause()).contains("394"), expected.getCause());
          that(System.nanoTime() - started < 60e9, "it ran on");
        }
        canceller.join();
      }
    });
    COMMON.put("a wrong password", connection -> {
      String right = password;
      password = "wrong";
      try (Connection stranger = connect("")) {
        ask(stranger, "SELECT 1");
      } catch (SQLException expected) {
        return;
      } finally {
        password = right;
      }
      throw new AssertionError("no error");
    });

    SERVER.put("metadata", connection -> {
      run(connection, "CREATE TABLE described (id UInt64, name Nullable(String), at DateTime64(3)) ENGINE = MergeTree ORDER BY id");
      DatabaseMetaData metadata = connection.getMetaData();
      is(List.of("described"), column(metadata.getTables(null, null, "described", null), "TABLE_NAME"));
      is(List.of("id", "name", "at"), column(metadata.getColumns(null, null, "described", null), "COLUMN_NAME"));
      that(column(metadata.getTypeInfo(), "TYPE_NAME").size() > 10, "few types");
    });
    SERVER.put("prepared statements and batches", connection -> {
      run(connection, "CREATE TABLE batch (a UInt32, s String) ENGINE = MergeTree ORDER BY a");
      try (PreparedStatement insert = connection.prepareStatement("INSERT INTO batch (a, s) VALUES (?, ?)")) {
        for (int a = 0; a < 1000; a++) {
          insert.setInt(1, a);
          insert.setString(2, "it's " + a + " ; \\ back");
          insert.addBatch();
        }
        is(1000, insert.executeBatch().length);
      }
      try (PreparedStatement select = connection.prepareStatement("SELECT s FROM batch WHERE a = ?")) {
        select.setInt(1, 999);
        is(List.of("it's 999 ; \\ back"), column(select.executeQuery(), "s"));
      }
      is(List.of("1000"), ask(connection, "SELECT count() AS n FROM batch"));
    });

    VIEWS.put("lists the views and their columns", connection -> {
      is("default", connection.getSchema());
      DatabaseMetaData metadata = connection.getMetaData();
      is(List.of("nodes", "rewards", "rollouts"), column(metadata.getTables(null, null, "%", null), "TABLE_NAME"));
      is(List.of("nodes", "rewards", "rollouts"), column(metadata.getTables(null, "default", "%", new String[] {"VIEW"}), "TABLE_NAME"));
      is(List.of("default"), column(metadata.getSchemas(), "TABLE_SCHEM"));
      List<String> columns = column(metadata.getColumns(null, "default", "rollouts", null), "COLUMN_NAME");
      is(List.of("project", "run", "rollout", "step", "reward"), columns);
      is(List.of(), column(metadata.getPrimaryKeys(null, "default", "nodes"), "COLUMN_NAME"));
      that(column(metadata.getTypeInfo(), "TYPE_NAME").size() > 10, "few types");
      that(column(metadata.getFunctions(null, null, "%"), "FUNCTION_NAME").size() > 100, "few functions");
    });
    VIEWS.put("rows, NULLs, qualified names", connection -> {
      try (Statement statement = connection.createStatement()) {
        ResultSet rows = statement.executeQuery("SELECT rollout, reward FROM `default`.`rollouts` ORDER BY rollout");
        that(rows.next() && rows.next(), "rows");
        is(0.5, rows.getDouble("reward"));
        that(rows.next(), "third row");
        rows.getDouble("reward");
        that(rows.wasNull(), "was null");
      }
    });
    VIEWS.put("prepared statements", connection -> {
      try (PreparedStatement select = connection.prepareStatement("SELECT count() AS n FROM nodes WHERE run = ? AND index < ?")) {
        select.setString(1, "run-1");
        select.setInt(2, 3);
        is(List.of("9"), column(select.executeQuery(), "n"));
        select.setString(1, "it's; \\ DROP");
        is(List.of("0"), column(select.executeQuery(), "n"));
      }
    });
    VIEWS.put("refusals carry their code", connection -> {
      codeIs(497, connection, "SELECT * FROM p_other.nodes");
      codeIs(497, connection, "SELECT * FROM system.processes");
      codeIs(164, connection, "DROP TABLE nodes");
      codeIs(164, connection, "INSERT INTO nodes (run) VALUES ('x')");
    });
  }

  public static void main(String[] arguments) throws Exception {
    address = arguments[1];
    user = arguments[2];
    password = arguments[3];
    Map<String, Check> checks = new LinkedHashMap<>(COMMON);
    checks.putAll(arguments[0].equals("views") ? VIEWS : SERVER);
    try (Connection connection = connect("")) {
      for (Map.Entry<String, Check> check : checks.entrySet()) {
        String outcome = "ok";
        try {
          check.getValue().run(connection);
        } catch (Throwable error) {
          outcome = (error + " " + error.getCause()).replaceAll("\\s+", " ");
        }
        System.out.println(check.getKey() + "\t" + outcome);
      }
    }
    System.exit(0);
  }
}
