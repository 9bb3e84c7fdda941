import java.sql.*;
import java.util.*;

/**
 * What an unmodified ClickHouse JDBC driver may expect of a ClickHouse server.
 * Arguments: host:port, user, password, database (which exists). Prints one line per check: its name, a tab, and "ok" or what went wrong.
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

  static Object one(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
      that(rows.next(), "no row: " + sql);
      return rows.getObject(1);
    }
  }

  static void codeIs(int code, Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
      while (rows.next()) rows.getObject(1);
    } catch (SQLException error) {
      // The driver leaves getErrorCode() at 0 and keeps the code in its cause.
      is(code, ((com.clickhouse.client.api.ServerException) error.getCause()).getCode());
      return;
    }
    throw new AssertionError("no error: " + sql);
  }

  static int count(ResultSet rows) throws SQLException {
    int count = 0;
    while (rows.next()) count++;
    return count;
  }

  static final Map<String, Check> CHECKS = new LinkedHashMap<>();

  static {
    CHECKS.put("connects and reads the version", connection -> {
      that(connection.isValid(10), "not valid");
      that(connection.getMetaData().getDatabaseProductVersion().matches("\\d+\\..*"), "no version");
    });
    CHECKS.put("metadata", connection -> {
      try (Statement statement = connection.createStatement()) {
        statement.execute("CREATE TABLE described (id UInt64, name Nullable(String), at DateTime64(3)) ENGINE = MergeTree ORDER BY id");
      }
      DatabaseMetaData metadata = connection.getMetaData();
      try (ResultSet tables = metadata.getTables(null, null, "described", null)) {
        is(1, count(tables));
      }
      try (ResultSet columns = metadata.getColumns(null, null, "described", null)) {
        is(3, count(columns));
      }
      try (ResultSet types = metadata.getTypeInfo()) {
        that(count(types) > 10, "few types");
      }
    });
    CHECKS.put("values of many types", connection -> {
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
    CHECKS.put("half a million rows", connection -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT number, toString(number) FROM numbers(500000)")) {
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
    CHECKS.put("without compression", connection -> {
      try (Connection plain = connect("?compress=false")) {
        is("7", String.valueOf(one(plain, "SELECT 7")));
      }
    });
    CHECKS.put("with HTTP compression", connection -> {
      try (Connection packed = connect("?client.use_http_compression=true")) {
        is("7", String.valueOf(one(packed, "SELECT 7")));
        try (Statement statement = packed.createStatement(); ResultSet rows = statement.executeQuery("SELECT number FROM numbers(200000)")) {
          is(200000, count(rows));
        }
      }
    });
    CHECKS.put("limits of rows", connection -> {
      try (Statement statement = connection.createStatement()) {
        statement.setMaxRows(10);
        try (ResultSet rows = statement.executeQuery("SELECT number FROM numbers(1000)")) {
          is(10, count(rows));
        }
      }
    });
    CHECKS.put("prepared statements and batches", connection -> {
      try (Statement statement = connection.createStatement()) {
        statement.execute("CREATE TABLE batch (a UInt32, s String) ENGINE = MergeTree ORDER BY a");
      }
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
        try (ResultSet rows = select.executeQuery()) {
          that(rows.next(), "no row");
          is("it's 999 ; \\ back", rows.getString(1));
        }
      }
      is("1000", String.valueOf(one(connection, "SELECT count() FROM batch")));
    });
    CHECKS.put("errors carry their code", connection -> {
      codeIs(46, connection, "SELECT nofunction(1)");
      codeIs(60, connection, "SELECT * FROM nowhere");
      codeIs(47, connection, "SELECT nobody FROM system.one");
      codeIs(395, connection, "SELECT throwIf(1)");
    });
    CHECKS.put("an error behind the first rows is not the end of the rows", connection -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT number, throwIf(number = 3000000) FROM numbers(4000000) SETTINGS max_block_size = 10000")) {
        while (rows.next()) rows.getLong(1);
      } catch (SQLException expected) {
        return;
      }
      throw new AssertionError("no error");
    });
    CHECKS.put("cancel from another thread", connection -> {
      try (Statement statement = connection.createStatement()) {
        Thread canceller = new Thread(() -> {
          try {
            Thread.sleep(1000);
            statement.cancel();
          } catch (Exception ignored) {
            // The check below fails when nothing was cancelled.
          }
        });
        canceller.start();
        long started = System.nanoTime();
        try {
          statement.executeQuery("SELECT sum(sleepEachRow(0.05)) FROM numbers(2000) SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 100000000");
          throw new AssertionError("no error");
        } catch (SQLException expected) {
          that(System.nanoTime() - started < 60e9, "it ran to its end");
        }
        canceller.join();
      }
    });
    CHECKS.put("a wrong password", connection -> {
      String right = password;
      password = "wrong";
      try (Connection stranger = connect("")) {
        one(stranger, "SELECT 1");
      } catch (SQLException expected) {
        return;
      } finally {
        password = right;
      }
      throw new AssertionError("no error");
    });
  }

  public static void main(String[] arguments) throws Exception {
    address = arguments[0] + "/" + arguments[3];
    user = arguments[1];
    password = arguments[2];
    try (Connection connection = connect("")) {
      for (Map.Entry<String, Check> check : CHECKS.entrySet()) {
        String outcome = "ok";
        try {
          check.getValue().run(connection);
        } catch (Throwable error) {
          outcome = String.valueOf(error).replaceAll("\\s+", " ");
        }
        System.out.println(check.getKey() + "\t" + outcome);
      }
    }
    System.exit(0);
  }
}
