#!/usr/bin/env bash
# What a container of das_spark does: its first argument is a role, or else a command of das-spark.
#
#   master | worker | history    a daemon of Spark, in the foreground
#   executor                     an executor, as Kubernetes starts one
#   health                       whether the role that this container was started in answers
#   run CONF ... and all other commands of das-spark, on SPARK_MASTER where that is set
#
#   SPARK_MASTER           spark://master:7077 or k8s://https://...; unset: all in one process, conf/spark/local.conf
#   DAS_SPARK_SECRET_FILE  holds the shared secret of the cluster; /run/secrets/spark_secret where unset
#   DAS_SPARK_DRIVER_MEMORY, DAS_SPARK_EXECUTOR_MEMORY, DAS_SPARK_PYTHON_MEMORY, DAS_SPARK_EXECUTOR_CORES
#                          sizes; those of the property file where unset
#   DAS_SPARK_PROPERTIES   a file of further Spark properties, which win over the shipped ones
#   SPARK_LOCAL_IP         the address by which others find this container; its first one where unset
#   DAS_SPARK_EVENTS       a restricted folder of event logs; none are written where unset
set -euo pipefail

# No core file of what holds key and counts; files of the public side may be read by its group only.
ulimit -S -c 0
umask 0027

runtime=/run/das_spark
shipped=$(python -c 'from das_spark.config import FOLDER; print(FOLDER)')
secret=${DAS_SPARK_SECRET_FILE:-/run/secrets/spark_secret}

stop() { printf 'das-spark-container: error: %s\n' "$*" >&2; exit 2; }

# Where others find this container: SPARK_LOCAL_IP, or else its first address.
address() { printf '%s' "${SPARK_LOCAL_IP:-$(hostname -i | cut -d ' ' -f 1)}"; }

# The shared secret, on standard output. An empty one would let everybody in.
shared_secret() {
    local value
    [ -f "$secret" ] && [ -r "$secret" ] || stop "no shared secret can be read in $secret (docker/README.md)"
    value=$(cat "$secret") || stop "the shared secret in $secret cannot be read"
    [ "${#value}" -ge 32 ] || stop "the shared secret in $secret has ${#value} characters, expected 32 or more"
    printf '%s' "$value"
}

# A size as a Spark property, where it is set.
size() { [ -z "${!2:-}" ] || printf '%s %s\n' "$1" "${!2}"; }

# The properties of this container, in a folder that lies in memory: the secret is in them, and never on a command line.
make_properties() {
    local name value
    case "$1 ${SPARK_MASTER:-}" in
        "daemon "*) name=standalone ;;
        "command ") name=local ;;
        "command k8s://"*) name=kubernetes ;;
        *) name=standalone ;;
    esac
    umask 0077
    cp "$shipped/spark/log4j2.properties" "$runtime/"
    cp "$shipped/spark/$name.conf" "$runtime/spark.conf"
    chmod 0600 "$runtime/spark.conf"
    {
        printf '\nspark.pyspark.python /opt/das_spark/bin/python\n'
        # A master that is started again without what it knew has the executors of all runs killed.
        [ "$1" != daemon ] || printf 'spark.deploy.recoveryMode FILESYSTEM\nspark.deploy.recoveryDirectory /scratch/master\n'
        # Executors call the driver back: by address, since containers that are run once have no name.
        [ "$name" = local ] || printf 'spark.driver.host %s\nspark.driver.bindAddress 0.0.0.0\n' "$(address)"
        if [ -n "${DAS_SPARK_EVENTS:-}" ]; then
            printf 'spark.eventLog.enabled true\nspark.eventLog.dir file:%s\n' "$DAS_SPARK_EVENTS"
            printf 'spark.history.fs.logDirectory file:%s\n' "$DAS_SPARK_EVENTS"
        fi
        size spark.driver.memory DAS_SPARK_DRIVER_MEMORY
        size spark.executor.memory DAS_SPARK_EXECUTOR_MEMORY
        size spark.executor.pyspark.memory DAS_SPARK_PYTHON_MEMORY
        size spark.executor.cores DAS_SPARK_EXECUTOR_CORES
    } >> "$runtime/spark.conf"
    if [ "$name" = standalone ]; then # on Kubernetes the property file names the file of the secret
        value=$(shared_secret)
        printf 'spark.authenticate.secret %s\n' "$value" >> "$runtime/spark.conf"
    fi
    [ -z "${DAS_SPARK_PROPERTIES:-}" ] || cat "$DAS_SPARK_PROPERTIES" >> "$runtime/spark.conf"
    umask 0027
    export SPARK_CONF_DIR=$runtime
    # A container's name may resolve to nothing; in local mode nobody else speaks to the driver.
    [ "$name" != local ] || export SPARK_LOCAL_IP=127.0.0.1
}

# A daemon of Spark: class, the port that tells of its health, and its arguments.
daemon() {
    local class=$1 port=$2
    shift 2
    make_properties daemon
    printf '%s\n' "$port" > "$runtime/port"
    exec spark-class "$class" "$@"
}

health() {
    # Of a container that carries out a command: nothing listens, and the command's own exit code tells.
    [ -f "$runtime/port" ] || exec das-spark --version
    exec python -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()' \
        "${SPARK_LOCAL_IP:-localhost}" "$(cat "$runtime/port")"
}

# What Spark's image for Kubernetes does of an executor: all that it must know is in variables that the driver sets.
executor() {
    local home options
    home=$(python -c 'from importlib.util import find_spec; print(*find_spec("pyspark").submodule_search_locations)')
    mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort --field-separator=_ --key=4 --numeric-sort | cut --delimiter== --fields=2-)
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$shipped/spark}:$home/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
}

role=${1:-doctor}
case "$role" in
    master)
        daemon org.apache.spark.deploy.master.Master 8080 --properties-file "$runtime/spark.conf" \
            --host "$(address)" --port 7077 --webui-port 8080
        ;;
    worker)
        [ -n "${SPARK_MASTER:-}" ] || stop "SPARK_MASTER is not set: a worker needs the address of its master"
        daemon org.apache.spark.deploy.worker.Worker 8081 --properties-file "$runtime/spark.conf" \
            --webui-port 8081 "$SPARK_MASTER"
        ;;
    history)
        [ -n "${DAS_SPARK_EVENTS:-}" ] || stop "DAS_SPARK_EVENTS is not set: there are no event logs to show"
        daemon org.apache.spark.deploy.history.HistoryServer 18080 --properties-file "$runtime/spark.conf"
        ;;
    executor) executor ;;
    health) health ;;
    *)
        make_properties command
        # Without arguments for Spark there is nothing to submit: the JVM starts when a command needs it.
        exec spark-submit --master "${SPARK_MASTER:-local[*,2]}" --properties-file "$runtime/spark.conf" \
            /opt/das_spark/jobs/run.py "$@"
        ;;
esac
