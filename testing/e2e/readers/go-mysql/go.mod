module readers

go 1.16

require (
	github.com/go-mysql-org/go-mysql v1.7.0
	github.com/siddontang/go-log v0.0.0-20180807004314-8d05993dda07
)
