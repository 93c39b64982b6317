//! Relays of MySQL, for replicas of MariaDB, and MySQL in the lab. Needs MySQL:
//! `scripts/test-mysql-upstream`.

mod lab_mysql;
mod relay_mysql;
