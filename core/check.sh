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

cargo --version >/dev/null 2>&1 || {
  echo "There is no cargo on the PATH: the compiled core is not checked"
  exit
}
if has fmt; then cargo fmt --check; fi
if has clippy; then cargo clippy --quiet --offline --locked --all-targets -- -D warnings; fi
cargo test --quiet --offline --locked
