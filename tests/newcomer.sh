#!/usr/bin/env bash
# newcomer.sh [FOLDER]: from nothing to a query over one's own rows, downloads included; prints the seconds of each step.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
step() { printf '%4d s  %s\n' "$SECONDS" "$1"; }

printf 'id;city;total\n1;Bern;9,50\n2;Biel;3,25\n3;Bern;1,25\n' >orders.csv
step "own rows: $folder/orders.csv"
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet --no-compile --no-cache-dir --disable-pip-version-check "$repository[java]"
step "installed: $(du -sm venv | cut -f1) MB"
export CALVE_CACHE=$folder/cache
venv/bin/calve load orders.csv shop.orders --delimiter ';'
step "loaded"
venv/bin/calve sql "SELECT city, count(*) AS orders, sum(replace(total, ',', '.')::decimal(9,2)) AS total FROM shop.orders GROUP BY city ORDER BY city"
step "queried"
