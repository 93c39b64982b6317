//! Relays of MySQL, for replicas of MariaDB. Needs MySQL: `scripts/test-mysql-upstream`.

mod relay_mysql;
