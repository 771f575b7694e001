"""The protocol of MySQL and MariaDB, and the events of the binary log."""
