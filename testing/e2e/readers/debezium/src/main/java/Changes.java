import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.nio.file.Path;
import java.util.Properties;

/**
 * Prints the changes of a table that Debezium reads from a relay: a snapshot, then the binlog. A line for each, in
 * JSON, behind one that says that the program has begun.
 *
 * <p>Arguments: the relay's port, account and password; the table (schema.table); a directory, from which a later run
 * continues.
 */
public class Changes {
    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[4]);
        Properties settings = new Properties();
        settings.setProperty("name", "synod");
        settings.setProperty("connector.class", "io.debezium.connector.mariadb.MariaDbConnector");
        settings.setProperty("topic.prefix", "synod");
        settings.setProperty("database.hostname", "127.0.0.1");
        settings.setProperty("database.port", arguments[0]);
        settings.setProperty("database.user", arguments[1]);
        settings.setProperty("database.password", arguments[2]);
        settings.setProperty("database.server.id", "4712");
        settings.setProperty("database.ssl.mode", "disable");
        settings.setProperty("table.include.list", arguments[3]);
        settings.setProperty("include.schema.changes", "false");
        settings.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        settings.setProperty("offset.storage.file.filename", dir.resolve("offsets").toString());
        settings.setProperty("offset.flush.interval.ms", "200");
        settings.setProperty("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory");
        settings.setProperty("schema.history.internal.file.filename", dir.resolve("schemas").toString());
        settings.setProperty("value.converter.schemas.enable", "false");
        System.out.println("begin");
        DebeziumEngine<?> engine =
                DebeziumEngine.create(Json.class)
                        .using(settings)
                        .notifying(event -> System.out.println(event.value()))
                        .using((succeeded, message, error) -> System.err.println(message + " " + error))
                        .build();
        engine.run();
        // It has ended by an error: threads of the connector may be left.
        System.exit(1);
    }
}
