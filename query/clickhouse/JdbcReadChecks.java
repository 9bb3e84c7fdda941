import java.sql.*;
import java.util.*;

/**
 * What an unmodified ClickHouse JDBC driver may expect of Tapedeck. Arguments: host:port, password of a key for the project with the views nodes, rewards, rollouts.
 * Prints one line per check: its name, a tab, and "ok" or what went wrong.
 */
public class JdbcReadChecks {
  static String address;
  static String password;

  interface Check {
    void run(Connection connection) throws Exception;
  }

  static Connection connect(String options) throws SQLException {
    Properties properties = new Properties();
    properties.setProperty("user", "anybody");
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

  static void codeIs(int code, Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
      while (rows.next()) rows.getObject(1);
    } catch (SQLException error) {
      is(code, ((com.clickhouse.client.api.ServerException) error.getCause()).getCode());
      return;
    }
    throw new AssertionError("no error: " + sql);
  }

  static final Map<String, Check> CHECKS = new LinkedHashMap<>();

  static {
    CHECKS.put("connects, with and without compression", connection -> {
      that(connection.isValid(10), "not valid");
      that(connection.getMetaData().getDatabaseProductVersion().matches("\\d+\\..*"), "no version");
      is("default", connection.getSchema());
      for (String options : new String[] {"", "/default?compress=false", "/default?client.use_http_compression=true"}) {
        try (Connection other = connect(options); Statement statement = other.createStatement()) {
          ResultSet rows = statement.executeQuery("SELECT count() AS n FROM nodes");
          is(List.of("24"), column(rows, "n"));
        }
      }
    });
    CHECKS.put("lists the views and their columns", connection -> {
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
    CHECKS.put("rows, NULLs, qualified names", connection -> {
      try (Statement statement = connection.createStatement()) {
        ResultSet rows = statement.executeQuery("SELECT rollout, reward FROM `default`.`rollouts` ORDER BY rollout");
        that(rows.next() && rows.next(), "rows");
        is(0.5, rows.getDouble("reward"));
        that(rows.next(), "third row");
        rows.getDouble("reward");
        that(rows.wasNull(), "was null");
      }
    });
    CHECKS.put("half a million rows, and the first ten of many", connection -> {
      try (Statement statement = connection.createStatement()) {
        is(500000, column(statement.executeQuery("SELECT number FROM system.numbers LIMIT 500000"), "number").size());
        statement.setMaxRows(10);
        statement.setQueryTimeout(30);
        is(10, column(statement.executeQuery("SELECT number FROM system.numbers LIMIT 1000"), "number").size());
      }
    });
    CHECKS.put("prepared statements", connection -> {
      try (PreparedStatement select = connection.prepareStatement("SELECT count() AS n FROM nodes WHERE run = ? AND index < ?")) {
        select.setString(1, "run-1");
        select.setInt(2, 3);
        is(List.of("9"), column(select.executeQuery(), "n"));
        select.setString(1, "it's; \\ DROP");
        is(List.of("0"), column(select.executeQuery(), "n"));
      }
    });
    CHECKS.put("refusals and errors carry their code", connection -> {
      codeIs(46, connection, "SELECT nofunction(1)");
      codeIs(60, connection, "SELECT * FROM nowhere");
      codeIs(47, connection, "SELECT nobody FROM nodes");
      codeIs(395, connection, "SELECT throwIf(1)");
      codeIs(497, connection, "SELECT * FROM p_other.nodes");
      codeIs(497, connection, "SELECT * FROM system.processes");
      codeIs(164, connection, "DROP TABLE nodes");
      codeIs(164, connection, "INSERT INTO nodes (run) VALUES ('x')");
    });
    CHECKS.put("an error behind the first rows is not the end of the rows", connection -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT number, throwIf(number = 3000000) FROM system.numbers LIMIT 4000000 SETTINGS max_block_size = 10000")) {
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
            Thread.sleep(1500);
            statement.cancel();
          } catch (Exception ignored) {
            // The check below fails when nothing was cancelled.
          }
        });
        canceller.start();
        try {
          statement.executeQuery("SELECT count() FROM nodes AS a, nodes AS b, nodes AS c, nodes AS d, nodes AS e, nodes AS f, nodes AS g, nodes AS h");
          throw new AssertionError("no error");
        } catch (SQLException expected) {
          that(String.valueOf(expected.getCause()).contains("394"), expected.getCause());
        }
        canceller.join();
      }
    });
    CHECKS.put("a wrong password", connection -> {
      String right = password;
      password = "wrong";
      try (Connection stranger = connect(""); Statement statement = stranger.createStatement()) {
        statement.executeQuery("SELECT 1");
      } catch (SQLException expected) {
        return;
      } finally {
        password = right;
      }
      throw new AssertionError("no error");
    });
  }

  public static void main(String[] arguments) throws Exception {
    address = arguments[0];
    password = arguments[1];
    try (Connection connection = connect("/default")) {
      for (Map.Entry<String, Check> check : CHECKS.entrySet()) {
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
