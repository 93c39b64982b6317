module orders

go 1.16

require github.com/go-sql-driver/mysql v1.7.1
