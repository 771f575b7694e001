"""Two tables for each kind of server, and what changes their rows in transactions of all sizes."""

from __future__ import annotations

from sources.database.kills import Writer

NUMBERS = (
    "(select @n := @n + 1 n from (select @n := 0) zero, information_schema.collations a, "
    "information_schema.collations b limit {}) g"
)
MYSQL_TABLES = [
    "create table app.item (id bigint primary key, v int, large text)",
    "create table app.pair (a int, b varchar(100) collate utf8mb4_bin, v int, primary key (a, b))",
    f"insert into app.item select n, 0, if(n % 50 = 0, repeat(md5(n), 100), null) from {NUMBERS.format(12000)}",
    f"insert into app.pair select n % 100, concat('b', n), n from {NUMBERS.format(5000)}",
    "analyze table app.item, app.pair",  # the number of ranges follows from the sizes
]
POSTGRES_TABLES = """
create schema app;
create table app.item (id bigint primary key, v int, large text);
alter table app.item alter large set storage external;
create table app.pair (a int, b text, v int, primary key (a, b));
insert into app.item select g, 0, case when g % 50 = 0 then repeat(md5(g::text), 100) end from generate_series(1, 12000) g;
insert into app.pair select g % 100, 'b' || g, g from generate_series(1, 5000) g;
"""


class MysqlWriter(Writer):
    """Changes rows of both tables."""

    def transaction(self) -> list[str]:
        count = self.random.choice([1, 1, 1, 3, 30])
        changes = [self.change() for _ in range(count)]
        return ["begin", *changes, self.random.choice(["commit"] * 9 + ["rollback"])]

    def change(self) -> str:
        one, other = self.random.randint(1, 7000), self.random.randint(1, 7000)
        return self.random.choice(
            [
                f"update app.item set v = v + 1 where id = {one}",
                f"update app.item set v = v + 1 where id in ({', '.join(str(one + 500 * n) for n in range(20))})",
                f"update app.item set large = repeat(md5('{other}'), 90) where id = {one}",
                f"delete from app.item where id = {one}",
                f"insert ignore into app.item (id, v) values ({20000 + one * 7000 + other}, 2)",
                f"insert ignore into app.item (id, v, large) values ({one}, 1, repeat('x', {other}))",
                f"update ignore app.item set id = {one} where id = {other}",
                f"insert ignore into app.pair values ({one % 100}, 'n|{other}', {one})",
                f"delete from app.pair where a = {one % 100} and v % 7 = 0",
                f"replace into app.pair values ({one % 100}, 'b{other}', {one})",
                f"update ignore app.pair set b = concat(b, '\\\\') where a = {one % 100} and v = {other}",
            ]
        )


class PostgresWriter(Writer):
    """Changes rows of both tables."""

    def transaction(self) -> list[str]:
        count = self.random.choice([1, 1, 1, 3, 30])
        changes = "".join(self.change() for _ in range(count))
        return [f"begin; {changes} {self.random.choice(['commit'] * 9 + ['rollback'])}"]

    def change(self) -> str:
        one, other = self.random.randint(1, 7000), self.random.randint(1, 7000)
        return self.random.choice(
            [
                f"update app.item set v = v + 1 where id = {one};",
                f"update app.item set v = v + 1 where id % 500 = {one % 10 * 50};",
                f"update app.item set large = repeat(md5('{other}'), 90) where id = {one};",
                f"delete from app.item where id = {one};",
                "insert into app.item select max(id) + 1, 2 from app.item on conflict do nothing;",
                f"insert into app.item values ({one}, 1, repeat('x', {other})) on conflict (id) do nothing;",
                f"update app.item set id = {one} where id = {other} and not exists (select from app.item where id = {one});",
                f"insert into app.pair values ({one % 100}, 'n|{other}', {one}) on conflict do nothing;",
                f"delete from app.pair where a = {one % 100} and v % 7 = 0;",
                f"update app.pair set b = b || '\\' where a = {one % 100} and v = {other};",
            ]
        )
