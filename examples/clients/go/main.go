// Commits orders, each once, whatever happens to servers (docs/operating/client-errors.md).
//
//	export DB_USER=shop DB_PASSWORD=...
//	seq -f order-%g 1000 | ./orders db1:3306,db2:3306,db3:3306
//
// Reads unique ids, and prints each when its order is committed. Tables: ../orders.sql.
package main

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const attempts = 300

var writer = regexp.MustCompile(`Write to '.*' at (\S+:\d+)`)

type shop struct {
	servers []string
	server  string
	db      *sql.DB
}

func (s *shop) take(order string) {
	for i := 0; i < attempts; i++ {
		err := s.attempt(order)
		if err == nil {
			return
		}
		log.Printf("%s: %s: %v", s.server, order, err)
		told := &mysql.MySQLError{}
		errors.As(err, &told)
		switch told.Number {
		case 1062:
			return // An attempt elsewhere was committed.
		case 1213, 1020, 1205: // Repeat here.
		// Not here; then what leaves open whether the order is there: no answer, not appended,
		// interrupted, killed, the server ends.
		case 1290, 1047, 0, 1180, 1317, 1927, 1053:
			s.leave(told.Message)
		default:
			os.Exit(1)
		}
		time.Sleep(time.Duration(rand.Intn(100)) * time.Millisecond)
	}
	log.Fatalf("%s: not committed in %d attempts", order, attempts)
}

func (s *shop) attempt(order string) error {
	if s.db == nil {
		if found, err := s.connect(order); found || err != nil {
			return err
		}
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // Nothing of an attempt that failed stays.
	var pieces int
	err = tx.QueryRow("SELECT pieces FROM sold WHERE item = 1").Scan(&pieces)
	if err == nil {
		_, err = tx.Exec("UPDATE sold SET pieces = ? WHERE item = 1", pieces+1)
	}
	if err == nil {
		_, err = tx.Exec("INSERT INTO orders (id, piece) VALUES (?, ?)", order, pieces+1)
	}
	if err == nil {
		err = tx.Commit()
	}
	return err
}

// connect tells whether the order is there.
func (s *shop) connect(order string) (found bool, err error) {
	account := os.Getenv("DB_USER") + ":" + os.Getenv("DB_PASSWORD")
	options := "wsrep_sync_wait=1&timeout=2s&readTimeout=10s&writeTimeout=10s"
	db, err := sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)/shop?%s", account, s.server, options))
	if err != nil {
		return false, err
	}
	db.SetMaxOpenConns(1)
	err = db.QueryRow("SELECT COUNT(*) > 0 FROM orders WHERE id = ?", order).Scan(&found)
	if err != nil {
		db.Close()
		return false, err
	}
	s.db = db
	return found, nil
}

// leave goes to the server that the error names, or to the next one.
func (s *shop) leave(err string) {
	if s.db != nil {
		s.db.Close()
		s.db = nil
	}
	next := s.servers[0]
	for i, server := range s.servers {
		if server == s.server {
			next = s.servers[(i+1)%len(s.servers)]
		}
	}
	if named := writer.FindStringSubmatch(err); named != nil {
		next = named[1]
	}
	s.server = next
}

func main() {
	servers := strings.Split(os.Args[1], ",")
	s := shop{servers: servers, server: servers[0]}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		s.take(lines.Text())
		fmt.Println(lines.Text())
	}
}
