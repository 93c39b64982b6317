// Prints the changes of rows that go-mysql's BinlogSyncer reads from a relay, until it has been
// quiet for a moment. Arguments: port, GTID to begin after, account, password.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/siddontang/go-log/log"
)

const quiet = 3 * time.Second

func main() {
	if err := read(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(arguments []string) error {
	port, err := strconv.ParseUint(arguments[0], 10, 16)
	if err != nil {
		return err
	}
	after, err := mysql.ParseMariadbGTIDSet(arguments[1])
	if err != nil {
		return err
	}
	messages, err := log.NewStreamHandler(os.Stderr)
	if err != nil {
		return err
	}
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID:        4712,
		Flavor:          mysql.MariaDBFlavor,
		Host:            "127.0.0.1",
		Port:            uint16(port),
		User:            arguments[2],
		Password:        arguments[3],
		HeartbeatPeriod: time.Second,
		Logger:          log.NewDefault(messages),
	})
	defer syncer.Close()
	streamer, err := syncer.StartSyncGTID(after)
	if err != nil {
		return err
	}
	for last := time.Now(); time.Since(last) < quiet; {
		wait, cancel := context.WithTimeout(context.Background(), quiet)
		event, err := streamer.GetEvent(wait)
		cancel()
		if err == context.DeadlineExceeded {
			return nil
		}
		if err != nil {
			return err
		}
		if rows, ok := event.Event.(*replication.RowsEvent); ok {
			last = time.Now()
			show(event.Header.EventType, rows)
		}
	}
	return nil
}

func show(kind replication.EventType, event *replication.RowsEvent) {
	word := "delete"
	switch kind {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		word = "insert"
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2:
		word = "update"
	}
	for _, row := range event.Rows {
		fmt.Println(word, string(event.Table.Schema)+"."+string(event.Table.Table), row)
	}
}
