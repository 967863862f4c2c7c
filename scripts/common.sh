# Sourced by quickstart and test: what must exist before Python can take over.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
dry_run=false

say() { printf '\n==> %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Run a command, or only show it under --dry-run.
run() {
    if $dry_run; then
        printf '  would run: %s\n' "$*"
    else
        "$@"
    fi
}

# The first Python that is new enough; empty if there is none.
find_python() {
    local name
    for name in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
}

can_make_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# Debian packages that are missing, one a line. $@: further commands that must exist, as command:package.
missing_packages() {
    local python pair
    python=$(find_python)
    if [ -z "$python" ] || ! can_make_environments "$python"; then
        printf '%s\n' python3 python3-venv
    fi
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || printf '%s\n' "${pair##*:}"
    done
}

# Debian packages: nothing to do where all is there; apt-get as root or through sudo; one clear line otherwise.
install_packages() {
    local packages as_root=()
    mapfile -t packages < <(missing_packages "$@" | sort -u)
    [ "${#packages[@]}" -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "missing: ${packages[*]} (Debian's names); this machine has no apt-get: install them and run this again"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "missing: ${packages[*]}; as root run 'apt-get install ${packages[*]}', then this again"
        as_root=(sudo)
    fi
    say "Debian packages: ${packages[*]}"
    run "${as_root[@]}" apt-get update || fail "apt-get update failed: see above"
    run "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${packages[@]}" ||
        fail "apt-get could not install ${packages[*]}: see above"
}

# Debian packages that only some tests want: installed where that needs nobody's password, otherwise those tests are skipped.
# $@: as for missing_packages.
install_if_easy() {
    local packages
    mapfile -t packages < <(missing_packages "$@" | sort -u)
    [ "${#packages[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        say "not installed, so some tests will be skipped: ${packages[*]} (Debian's names)"
        return 0
    fi
    say "Debian packages for tests of the core: ${packages[*]}"
    { run apt-get update && run env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${packages[@]}"; } ||
        say "apt-get could not install them (see above); some tests will be skipped"
}

# .venv, made anew if it is missing, half made or too old.
make_environment() {
    local python
    if .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        return
    fi
    python=$(find_python)
    if [ -z "$python" ]; then
        $dry_run || fail "Outrider needs Python 3.11 or newer, and this system's is older ($(python3 --version 2>&1 || true))"
        python=python3
    fi
    say "a virtual environment in .venv, made by $python"
    run "$python" -m venv --clear .venv || fail "could not make the environment in .venv: see above"
}

# Everything up to a working `outrider`. $@: options of install.py.
set_up() {
    local tools=(gcc:g++ g++:g++)
    [ -z "${needs_make:-}" ] || tools+=(make:make)
    install_packages "${tools[@]}"
    make_environment
    say "Outrider and its Python packages"
    run .venv/bin/python scripts/install.py "$@" || exit 1
}
