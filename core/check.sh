#!/usr/bin/env bash
# Formats, lints and tests the compiled core, as far as cargo has what this takes; `make check` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

has() {
  cargo "$1" --version >/dev/null 2>&1 || {
    echo "cargo has no $1 here: the compiled core is checked without"
    return 1
  }
}

fault=$(PYTHONPATH=../src "${PYTHON:-../.venv/bin/python}" -m calve.compiled.build --cargo)
if [ -n "$fault" ]; then
  echo "$fault: the compiled core is not checked"
  exit
fi
if has fmt; then cargo fmt --check; fi
if has clippy; then cargo clippy --quiet --offline --locked --all-targets -- -D warnings; fi
cargo test --quiet --offline --locked
