import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;
import java.util.Scanner;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Pattern;

/**
 * Commits orders, each once, whatever happens to servers (docs/operating/client-errors.md).
 *
 * <pre>
 * export DB_USER=shop DB_PASSWORD=...
 * seq -f order-%g 1000 | java -cp ... Orders db1:3306,db2:3306,db3:3306
 * </pre>
 *
 * Reads unique ids, and prints each when its order is committed. Tables: ../orders.sql.
 */
public class Orders {
    static final int ATTEMPTS = 300;
    static final int DUPLICATE = 1062;
    static final Set<Integer> REPEAT_HERE = Set.of(1213, 1020, 1205);
    /**
     * Not here; then what leaves open whether the order is there: not appended, interrupted,
     * killed; the server ends.
     */
    static final Set<Integer> REPEAT_ELSEWHERE = Set.of(1290, 1047, 1180, 1317, 1927, 1053);

    final List<String> servers;
    String server;
    Connection db;

    Orders(List<String> servers) {
        this.servers = servers;
        server = servers.get(0);
    }

    public static void main(String[] arguments) throws Exception {
        Orders orders = new Orders(List.of(arguments[0].split(",")));
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine(); ) {
            String order = lines.nextLine();
            orders.take(order);
            System.out.println(order);
        }
    }

    void take(String order) throws Exception {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            try {
                if (db == null && connect(order)) {
                    return; // An attempt elsewhere was committed.
                }
                db.rollback();
                sell(order);
                return;
            } catch (SQLException error) {
                int code = error.getErrorCode();
                System.err.println(server + ": " + order + ": " + code + " " + error.getMessage());
                // No connection, or no answer.
                boolean isLost = String.valueOf(error.getSQLState()).startsWith("08");
                if (code == DUPLICATE) {
                    return; // The same.
                } else if (isLost || REPEAT_ELSEWHERE.contains(code)) {
                    leave(error.getMessage());
                } else if (!REPEAT_HERE.contains(code)) {
                    throw error;
                }
            }
            Thread.sleep(ThreadLocalRandom.current().nextInt(100));
        }
        throw new Exception(order + ": not committed in " + ATTEMPTS + " attempts");
    }

    /** Connects, and tells whether the order is there. */
    boolean connect(String order) throws SQLException {
        String options =
                "connectTimeout=2000&socketTimeout=10000&sessionVariables=wsrep_sync_wait=1";
        String url = "jdbc:mariadb://" + server + "/shop?" + options;
        String user = System.getenv("DB_USER"), password = System.getenv("DB_PASSWORD");
        Connection made = DriverManager.getConnection(url, user, password);
        made.setAutoCommit(false);
        try (var select = made.prepareStatement("SELECT COUNT(*) FROM orders WHERE id = ?")) {
            select.setString(1, order);
            var found = select.executeQuery();
            found.next();
            db = made;
            return found.getInt(1) > 0;
        }
    }

    void sell(String order) throws SQLException {
        try (var statement = db.createStatement();
                var insert = db.prepareStatement("INSERT INTO orders (id, piece) VALUES (?, ?)")) {
            var sold = statement.executeQuery("SELECT pieces + 1 FROM sold WHERE item = 1");
            sold.next();
            long piece = sold.getLong(1);
            statement.executeUpdate("UPDATE sold SET pieces = " + piece + " WHERE item = 1");
            insert.setString(1, order);
            insert.setLong(2, piece);
            insert.executeUpdate();
        }
        db.commit();
    }

    /** Goes to the server that the error names, or to the next one. */
    void leave(String error) {
        try (Connection left = db) {
            db = null;
        } catch (SQLException ignored) {
            // It is lost.
        }
        var named = Pattern.compile("Write to '.*' at (\\S+:\\d+)").matcher(error);
        int next = (servers.indexOf(server) + 1) % servers.size();
        server = named.find() ? named.group(1) : servers.get(next);
    }
}
