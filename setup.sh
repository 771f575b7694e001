#!/usr/bin/env bash
# Makes .venv with Calve and all it needs, telling what it does; `make setup` calls it when something is missing or old.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
bin="$PWD/.venv/bin"

fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

suitable() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
  for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if suitable "$name"; then
      echo "$name"
      return
    fi
  done
  fail "Calve needs Python 3.11 or newer and found none. Install one (Debian, Ubuntu: apt install python3 python3-venv)" \
    "or name it: make setup PYTHON=/path/to/python3.12"
}

make_venv() {
  local python
  rm -f .venv/.ready
  if suitable "$bin/python" && "$bin/python" -m pip --version >/dev/null 2>&1; then
    echo "[1/6] Using the .venv that is there, $("$bin/python" --version)"
    return
  fi
  python=$(find_python)
  echo "[1/6] Making .venv with $("$python" --version)"
  local said
  said=$("$python" -m venv --clear .venv 2>&1) || fail "$said" \
    "Python cannot make a virtual environment. Debian, Ubuntu: apt install python3-venv; or name another one: make setup PYTHON=…"
}

install_packages() {
  echo "[3/6] Installing $(grep -c '==' requirements.lock) packages (some 600 MB the first time, most of it Spark)"
  pip_install -r requirements.lock
  pip_install --no-deps --no-build-isolation -e .
}

# Installs with one line per large download, so that a slow network is seen to move; pip's own words when it fails.
pip_install() {
  local log
  log=$(mktemp)
  "$bin/python" -m pip install --progress-bar off "$@" 2>&1 | tee "$log" |
    { sed -un -e 's/^ *Downloading \([^ ]*\/\)\{0,1\}\([^- ]*\)-\([^-]*\).*\((.* MB)\)/      \2 \3 \4/p' \
      -e 's/^ *Building wheel for \([a-z]*\) .*started/      unpacking \1/p' \
      -e 's/^Installing collected packages.*/      putting them in place/p' || true; } || {
    tail -n 15 "$log" >&2
    rm -f "$log"
    fail "pip cannot install what Calve needs; see above. Without a network, point pip at a mirror: PIP_INDEX_URL=…"
  }
  rm -f "$log"
}

find_java() {
  "$bin/python" - <<'PYTHON'
from calve.engine.jvm import jdk
from calve.errors import EngineError

try:
    found = jdk.find()
except EngineError:
    raise SystemExit(1) from None
print(f"      Java {found.version}: {found.executable}")
PYTHON
}

echo "Setting up Calve in $PWD/.venv"
make_venv
echo "[2/6] Building the compiled core, which converts events"
PYTHONPATH=src "$bin/python" -m calve.compiled.build 2>&1 | sed 's/^ */      /'
install_packages
echo "[4/6] Looking for Java 17 or 21"
if ! find_java; then
  echo "      none on this system; installing one into .venv (40 MB)"
  pip_install -r requirements-java.lock
  find_java || fail "the Java that was installed does not run here. Install a JDK 17 or 21 and set JAVA_HOME"
fi
echo "[5/6] Fetching the jars that Spark needs for Iceberg (60 MB the first time)"
"$bin/python" -m calve.engine.jvm.jars >/dev/null
echo "[6/6] Preparing Java's classes, so that Spark starts in half the time (half a minute the first time)"
"$bin/python" -m calve.engine.jvm.archive >/dev/null || echo "      that did not work; Spark just starts slower"
touch .venv/.ready
echo "Ready: .venv/bin/calve --help"
